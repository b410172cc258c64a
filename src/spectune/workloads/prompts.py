"""Prompts: a workload's text in, a pool of distinct requests out. Pure: files are read by the caller."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from spectune.domain.workload import WorkloadSpec
from spectune.errors import ConfigError

BUILTIN = "python-code"
COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
_PROMPT_CHARS = (100, 900)
_MAX_TOKENS = (48, 144)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """One distinct request before it is placed in a level's list.

    Attributes:
        path: "/v1/completions" or "/v1/chat/completions".
        body: OpenAI request body as JSON text, without `stream` and `stream_options`.
        max_tokens: upper limit of output tokens.
    """

    path: str
    body: str
    max_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptPool:
    """A workload's distinct requests, in the order they will be used.

    Attributes:
        spec: what the study stores of it.
        prompts: none occurs twice.
        notes: what a user should know (requests dropped as repeats, limits filled in); one line each.
    """

    spec: WorkloadSpec
    prompts: tuple[Prompt, ...]
    notes: tuple[str, ...] = ()


def python_code_pool(jsonl: str, *, seed: int = 0, num_prompts: int = 1536) -> PromptPool:
    """The built-in `python-code` workload: greedy completions of source code.

    A prompt begins at a line's start and ends at a line's end; its length is log-uniform over 100 to 900
    characters (about 30 to 250 tokens) and `max_tokens` uniform over 48 to 144.

    Args:
        jsonl: text of the bundled `workloads/data/python_code.jsonl.gz`, one {"path", "text"} a line.
        seed: decides cuts, lengths and order.
        num_prompts: at most this many; fewer when the text does not give them.

    Raises:
        ConfigError: the text is malformed or gives no prompt.
    """
    rng = np.random.default_rng(seed)
    places = [(text, start) for text in _source_texts(jsonl) for start in _line_starts(text)]
    prompts: dict[str, Prompt] = {}
    for place in rng.permutation(len(places)):
        if len(prompts) == num_prompts:
            break
        text, start = places[place]
        low, high = np.log(_PROMPT_CHARS)
        cut = _cut(text, start, int(np.exp(rng.uniform(low, high))))
        max_tokens = int(rng.integers(_MAX_TOKENS[0], _MAX_TOKENS[1], endpoint=True))
        if len(cut) >= _PROMPT_CHARS[0]:
            body = json.dumps({"prompt": cut, "max_tokens": max_tokens, "temperature": 0})
            prompts.setdefault(cut, Prompt(path=COMPLETIONS, body=body, max_tokens=max_tokens))
    if not prompts:
        raise ConfigError(f"workload {BUILTIN}: `the bundled text gives prompts` must hold, got none.")
    return pool_of(prompts.values(), name=BUILTIN, kind="builtin", temperature=0.0, seed=seed, notes=())


def pool_of(
    prompts: Iterable[Prompt],
    *,
    name: str,
    kind: str,
    temperature: float | None,
    seed: int,
    notes: tuple[str, ...],
) -> PromptPool:
    """The pool of these prompts, its digest over every body and its order."""
    kept = tuple(prompts)
    digest = hashlib.sha256("\n".join(f"{prompt.path} {prompt.body}" for prompt in kept).encode())
    spec = WorkloadSpec(
        name=name,
        kind=kind,
        digest=digest.hexdigest(),
        num_prompts=len(kept),
        temperature=temperature,
        seed=seed,
    )
    return PromptPool(spec=spec, prompts=kept, notes=notes)


def _source_texts(jsonl: str) -> list[str]:
    texts: list[str] = []
    for number, line in enumerate(jsonl.split("\n"), start=1):  # not splitlines: form feeds stand in code
        if not line.strip():
            continue
        try:
            entry: object = json.loads(line)
        except ValueError:
            entry = None
        text = entry.get("text") if isinstance(entry, dict) else None
        if not isinstance(text, str):
            raise ConfigError(
                f"workload {BUILTIN}, line {number} of the bundled text: "
                f'`a JSON object with "text"` must hold, got {line[:60]!r}.'
            )
        texts.append(text)
    return texts


def _line_starts(text: str) -> list[int]:
    """Offsets of the lines that are not blank."""
    starts: list[int] = []
    offset = 0
    for line in text.split("\n"):
        if line.strip():
            starts.append(offset)
        offset += len(line) + 1
    return starts


def _cut(text: str, start: int, num_chars: int) -> str:
    """Whole lines from `start`, as many as fit into `num_chars`, at least one."""
    piece = text[start : start + num_chars]
    end = piece.rfind("\n")
    return piece if end < 0 else piece[: end + 1]
