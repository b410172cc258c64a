"""Capacity levers: flags that change how many requests run at once, tried beside a setting. Pure.

A lever is a text such as "--max-running-requests 24". On models with a recurrent state every draft token of
every running request reserves a whole state, so that these flags and not the step time may decide where
speculation stops paying. What a lever sets becomes a requested key: a server that reports another value does
not run what was asked for. Names and meanings: SGLang 0.5.9 to 0.5.23, vLLM 0.32, llama.cpp b11434 (source).
"""

import re
import shlex
from dataclasses import dataclass
from typing import Literal

from spectune.domain.trial import EffectiveSettings
from spectune.engines.known_bugs import version_key
from spectune.errors import ConfigError

Form = Literal["count", "share", "ratio", "word", "switch"]
MAX_RUNNING = "max_running_requests"
_COUNT = re.compile(r"[0-9]{1,9}")
_NUMBER = re.compile(r"(?:[0-9]{1,9}(?:\.[0-9]{0,20})?|\.[0-9]{1,20})(?:[eE][+-]?[0-9]{1,2})?")
_JOINT_SOLVE = (0, 5, 13)
_STATES = "max_mamba_cache_size"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lever:
    """A flag that may be pulled.

    Attributes:
        flag: its name.
        form: what its value is; a switch has none.
        key: what the server calls it where it reports it, "" where it does not.
        aliases: other names, taken out where it is set.
        choices: words it takes; empty for any.
        is_lossless: whether the model's numbers stay as they are.
    """

    flag: str
    form: Form
    key: str = ""
    aliases: tuple[str, ...] = ()
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
            flag="--spec-draft-model", form="word",
            aliases=("-md", "--model-draft", "-hfd", "--spec-draft-hf", "--hf-repo-draft"),
        ),
    ),
}  # fmt: skip
"""The levers of each dialect."""


def aliases_of(engine: str) -> dict[str, tuple[str, ...]]:
    """Other names of each lever's flag."""
    return {lever.flag: lever.aliases for lever in LEVERS[engine]}


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


def is_lossless(engine: str, text: str) -> bool:
    """Whether a lever leaves the model's numbers as they are."""
    return not text or all(pulled.lever.is_lossless for pulled in parse_lever(engine, text))


def suggested_levers(engine: str, effective: EffectiveSettings, help_text: str = "") -> tuple[str, ...]:
    """Levers worth a trial on a server that speculates, lossless ones only; from what it reports.

    SGLang before 0.5.13 reserves states for every request of --max-running-requests, also those that cannot
    run; set to the real cap it leaves room for more.
    """
    reported = {key.name: key.value for key in effective.reported}
    if engine != "sglang" or effective.config.is_off or not _is_recurrent(reported):
        return ()
    found: list[str] = []
    cap, asked = effective.max_running_requests, reported.get(MAX_RUNNING, "")
    is_old = bool(effective.engine_version) and version_key(effective.engine_version) < _JOINT_SOLVE
    if is_old and cap and _COUNT.fullmatch(asked) and cap < int(asked):
        found.append(f"--max-running-requests {cap}")
    replay = "--enable-linear-replayssm-spec"
    is_on = reported.get("enable_linear_replayssm_spec") == "True"
    if effective.config.topk == 1 and replay in help_text and not is_on:
        found.append(replay)
    return tuple(found)


def _lever_of(engine: str, flag: str, text: str) -> Lever:
    for lever in LEVERS[engine]:
        if flag in (lever.flag, *lever.aliases):
            return lever
    known = ", ".join(lever.flag for lever in LEVERS[engine])
    raise ConfigError(f"lever {text!r}: `one of {known}` must be pulled on {engine}, got {flag!r}.")


def _checked(lever: Lever, value: str, text: str) -> str:
    rules = {
        "count": (
            "a whole number from 1 on, of at most 9 digits",
            _COUNT.fullmatch(value) and int(value) >= 1,
        ),
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
        raise ConfigError(f"lever {text!r:.80}: `{lever.flag} takes {wanted}` must hold, got {value!r:.40}.")
    return value


def _is_recurrent(reported: dict[str, str]) -> bool:
    return reported.get(_STATES, "None") not in ("None", "0", "")


def _is_same(asked: str, reported: str) -> bool:
    return asked.lower() == reported.lower() or _number(asked) == _number(reported)


def _number(text: str) -> float:
    """Its value; not a number where it is none, which equals nothing."""
    return float(text) if _NUMBER.fullmatch(text) else float("nan")
