"""Prompts: a workload's text in, a pool of distinct requests out. Pure: files are read by the caller."""

from dataclasses import dataclass

from spectune.domain.workload import WorkloadSpec


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
    """The built-in `python-code` workload.

    Args:
        jsonl: text of the bundled `workloads/data/python_code.jsonl.gz`, one {"path", "text"} a line.
        seed: decides cuts, lengths and order.
        num_prompts: at most this many.
    """
    raise NotImplementedError(jsonl, seed, num_prompts)


def request_file_pool(jsonl: str, *, name: str) -> PromptPool:
    """The workload of a user's own requests, one OpenAI request body a line.

    Args:
        jsonl: text of the file.
        name: its name, for messages.

    Raises:
        ConfigError: a line is malformed, or there is none.
    """
    raise NotImplementedError(jsonl, name)
