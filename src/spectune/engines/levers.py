"""Capacity levers: flags that change how many requests run at once, tried beside a setting. Pure.

A lever is a text such as "--max-running-requests 24". On models with a recurrent state every draft token of
every running request reserves a whole state, so that these flags and not the step time may decide where
speculation stops paying. What a lever sets becomes a requested key: a server that reports another value does
not run what was asked for. Names and meanings: SGLang 0.5.9 to 0.5.23, vLLM 0.32, llama.cpp b11434 (source).
"""

import shlex
from dataclasses import dataclass
from typing import Literal

from spectune.domain.trial import EffectiveSettings
from spectune.errors import ConfigError

Form = Literal["count", "share", "ratio", "word", "switch"]
MAX_RUNNING = "max_running_requests"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lever:
    """A flag that may be pulled.

    Attributes:
        flag: its name.
        form: what its value is; a switch has none.
        key: what the server calls it where it reports it, "" where it does not.
        aliases: other names.
        rivals: flags that say the same in another way; taken out where it is set, as its names are.
        choices: words it takes; empty for any.
        is_lossless: whether the model's numbers stay as they are.
    """

    flag: str
    form: Form
    key: str = ""
    aliases: tuple[str, ...] = ()
    rivals: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    is_lossless: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PulledLever:
    """A lever with its value, "" for a switch."""

    lever: Lever
    value: str

    @property
    def words(self) -> tuple[str, ...]:
        """As on a command line."""
        return (self.lever.flag, self.value) if self.value else (self.lever.flag,)


LEVERS: dict[str, tuple[Lever, ...]] = {
    "embedded": (Lever(flag="--max-running-requests", form="count", key=MAX_RUNNING),),
    "sglang": (
        Lever(flag="--max-running-requests", form="count", key=MAX_RUNNING),
        Lever(flag="--mem-fraction-static", form="share", key="mem_fraction_static"),
        Lever(flag="--max-mamba-cache-size", form="count", key="max_mamba_cache_size"),
        Lever(flag="--mamba-full-memory-ratio", form="ratio", key="mamba_full_memory_ratio"),
        Lever(
            flag="--mamba-ssm-dtype", form="word", key="mamba_ssm_dtype", choices=("float32", "bfloat16"),
            is_lossless=False,
        ),
        Lever(
            flag="--mamba-radix-cache-strategy", form="word", key="mamba_radix_cache_strategy",
            choices=("auto", "no_buffer", "extra_buffer", "extra_buffer_lazy"),
        ),
        Lever(
            flag="--mamba-scheduler-strategy", form="word", key="mamba_scheduler_strategy",
            choices=("auto", "no_buffer", "extra_buffer"),
        ),
        Lever(flag="--enable-linear-replayssm-spec", form="switch", key="enable_linear_replayssm_spec"),
        Lever(flag="--disable-radix-cache", form="switch", key="disable_radix_cache"),
        Lever(
            flag="--speculative-draft-model-path", form="word", key="speculative_draft_model_path",
            aliases=("--speculative-draft-model",),
        ),
    ),
    "vllm": (
        Lever(flag="--max-num-seqs", form="count", key="max_num_seqs"),
        Lever(flag="--gpu-memory-utilization", form="share", key="gpu_memory_utilization"),
        Lever(flag="--max-num-batched-tokens", form="count"),
        Lever(
            flag="--mamba-ssm-cache-dtype", form="word", key="mamba_ssm_cache_dtype",
            choices=("auto", "float32", "bfloat16", "float16"), is_lossless=False,
        ),
    ),
    "llamacpp": (
        Lever(flag="--parallel", form="count", key="n_parallel", aliases=("-np",)),
        Lever(flag="--ctx-size", form="count", aliases=("-c",)),
        Lever(
            flag="--spec-draft-model", form="word", aliases=("-md", "--model-draft"),
            rivals=("--spec-draft-hf", "-hfd", "--hf-repo-draft"),
        ),
        Lever(
            flag="--spec-draft-hf", form="word", aliases=("-hfd", "--hf-repo-draft"),
            rivals=("--spec-draft-model", "-md", "--model-draft"),
        ),
    ),
}  # fmt: skip
"""The levers of each dialect."""


def lever_words(engine: str, flags: tuple[str, ...]) -> tuple[str, ...]:
    """Flags as a user may write them, in the engine's own: `--name value` and switches, no alias, no `=`.

    >>> lever_words("llamacpp", ("-np", "8", "--ctx-size=4096"))
    ('--parallel', '8', '--ctx-size', '4096')
    """
    return tuple(word for pulled in parse_lever(engine, shlex.join(flags)) for word in pulled.words)


def aliases_of(engine: str) -> dict[str, tuple[str, ...]]:
    """What is taken out where each lever's flag is set."""
    return {lever.flag: (*lever.aliases, *lever.rivals) for lever in LEVERS[engine]}


def parse_lever(engine: str, text: str) -> tuple[PulledLever, ...]:
    """The levers that a text pulls, in its order; raises ConfigError where it is none of this engine."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ConfigError(f"lever {text!r}: `words quoted as in a shell` must be given ({error}).") from error
    pulled: list[PulledLever] = []
    while words:
        flag, equals, value = words.pop(0).partition("=")
        lever = _lever_of(engine, flag, text)
        if lever.form != "switch" and not equals:
            if not words:
                raise ConfigError(f"lever {text!r}: `{flag}` must be followed by a value.")
            value = words.pop(0)
        pulled.append(PulledLever(lever=lever, value=_checked(lever, value, text)))
    if not pulled:
        raise ConfigError(f"lever: `a flag of {engine}` must be given, got nothing.")
    return tuple(pulled)


def check_lever(engine: str, text: str, help_text: str = "") -> str:
    """Why this build cannot take a lever's flags, or ""; raises ConfigError as `parse_lever` does."""
    for pulled in parse_lever(engine, text):
        if help_text and pulled.lever.flag not in help_text:
            return f"this build's --help does not name {pulled.lever.flag}."
    return ""


def requested_keys(engine: str, text: str) -> tuple[tuple[str, str], ...]:
    """What a lever makes requested: (key as the server reports it, value asked for)."""
    if not text:
        return ()
    return tuple(
        (pulled.lever.key, pulled.value or "True") for pulled in parse_lever(engine, text) if pulled.lever.key
    )


def lever_differs(engine: str, text: str, effective: EffectiveSettings) -> str:
    """What the server reports otherwise than the lever asks for, or "".

    A key that it does not report is taken as it was asked for. Where it reports only how many requests
    really run, fewer than asked for are a matter of capacity, more are a difference.
    """
    reported = {key.name: key.value for key in effective.reported}
    runs = effective.max_running_requests
    if MAX_RUNNING not in reported and runs is not None:
        reported |= {
            key: str(runs) for key, asked in requested_keys(engine, text)
            if key == MAX_RUNNING and runs > int(asked)
        }  # fmt: skip
    return "; ".join(
        f"{key} {asked} was asked for, {reported[key]} runs"
        for key, asked in requested_keys(engine, text)
        if key in reported and not _is_same(asked, reported[key])
    )


def changing_flags(engine: str, text: str) -> tuple[str, ...]:
    """The flags of a lever that change the model's numbers and so perhaps its answers."""
    pulled = parse_lever(engine, text) if text else ()
    return tuple(one.lever.flag for one in pulled if not one.lever.is_lossless)


def _lever_of(engine: str, flag: str, text: str) -> Lever:
    for lever in LEVERS[engine]:
        if flag in (lever.flag, *lever.aliases):
            return lever
    known = ", ".join(lever.flag for lever in LEVERS[engine])
    raise ConfigError(f"lever {text!r}: `one of {known}` must be pulled on {engine}, got {flag!r}.")


def _checked(lever: Lever, value: str, text: str) -> str:
    rules = {
        "count": ("a whole number from 1 on", value.isdecimal() and int(value) >= 1),
        "share": ("a number between 0 and 1", 0 < _number(value) < 1),
        "ratio": ("a number above 0", 0 < _number(value) < float("inf")),
        "word": (
            ", ".join(lever.choices) or "a word",
            value in lever.choices if lever.choices else bool(value),
        ),
        "switch": ("no value", not value),
    }
    wanted, holds = rules[lever.form]
    if not holds:
        raise ConfigError(f"lever {text!r}: `{lever.flag} takes {wanted}` must hold, got {value!r}.")
    return value


def _is_same(asked: str, reported: str) -> bool:
    return asked.lower() == reported.lower() or _number(asked) == _number(reported)


def _number(text: str) -> float:
    """Its value; not a number where it is none, which equals nothing."""
    try:
        return float(text)
    except ValueError:
        return float("nan")
