"""What a failed server's exit status and log say: signs that engines share, most telling first."""

import re
from dataclasses import dataclass

from spectune.domain.trial import FailureKind
from spectune.engines.adapter import Diagnosis, ServerTraces

_EXCEPTION = re.compile(r"^(?:\[[^\]]*\]\s*|\([^)]*\)\s*)*[\w.]*(?:Error|Exception)\b.*")

OUT_OF_MEMORY = re.compile(r"out of memory|MemoryError|bad_alloc|cannot allocate memory", re.IGNORECASE)
"""What most programs say; engines with flags of their own for it name them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sign:
    """A pattern of a log line and what it means."""

    pattern: re.Pattern[str]
    kind: FailureKind
    next_step: str


SIGNS = (
    Sign(
        pattern=re.compile(r"address already in use", re.IGNORECASE),
        kind="port_in_use",
        next_step="Stop what listens there, or give the serve command another --port.",
    ),
    Sign(
        pattern=re.compile(
            r"CUDA driver version is insufficient|no CUDA-capable device|Failed to initialize NVML"
            r"|uncorrectable ECC|NVRM: Xid|system not yet initialized",
            re.IGNORECASE,
        ),
        kind="driver_error",
        next_step="Look at nvidia-smi and the kernel's log; the GPU or its driver is not well.",
    ),
    Sign(
        pattern=OUT_OF_MEMORY,
        kind="out_of_memory",
        next_step="Let fewer requests run at once, or try fewer draft tokens.",
    ),
    Sign(
        pattern=re.compile(r"error: argument|unrecognized arguments|invalid choice|usage:", re.IGNORECASE),
        kind="bad_argument",
        next_step="Run the serve command by itself and correct the flag.",
    ),
)


def diagnose(
    traces: ServerTraces, signs: tuple[Sign, ...] = SIGNS, *, own_kill: re.Pattern[str] | None = None
) -> Diagnosis:
    """The class of a failure.

    A server that still runs hangs. One that ended is told by the last log line that shows a sign;
    without a sign by its exit status and whether it had been ready.

    Args:
        traces: what is left of the server.
        signs: patterns, most telling first.
        own_kill: what the log says where an engine ends itself by SIGKILL.
    """
    if traces.exit_status is None:
        kind: FailureKind = "hang" if traces.was_ready else "not_ready"
        return Diagnosis(
            kind=kind,
            cause="The server runs but gives no token.",
            next_step="Look at the end of its log; try the setting alone with the serve command.",
        )
    is_own = own_kill is not None and own_kill.search(traces.log_tail) is not None
    ended = _ending(traces.exit_status, is_own_kill=is_own)
    for line in reversed(traces.log_tail.splitlines()):
        for sign in signs:
            if sign.pattern.search(line):
                return Diagnosis(kind=sign.kind, cause=f"{ended}: {line.strip()}", next_step=sign.next_step)
    return _without_sign(traces, ended, is_own_kill=is_own)


def _without_sign(traces: ServerTraces, ended: str, *, is_own_kill: bool) -> Diagnosis:
    last = _telling_line(traces.log_tail)
    cause = f"{ended}; last log line: {last}" if last else f"{ended} and left no log"
    if traces.exit_status == -9 and not is_own_kill:
        return Diagnosis(
            kind="out_of_memory",
            cause=f"{cause} (SIGKILL is what the kernel sends when memory runs out)",
            next_step="Look into the kernel's log; let fewer requests run at once.",
        )
    kind: FailureKind = "crash_under_load" if traces.was_ready else "crash_at_start"
    if traces.exit_status == 2 and not traces.was_ready:
        kind = "bad_argument"
    return Diagnosis(kind=kind, cause=cause, next_step="Run the serve command by itself to see it fail.")


def _telling_line(log: str) -> str:
    """The last line that names an exception, else the last one that is not empty."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    raised = [line for line in lines if _EXCEPTION.match(line)]
    return (raised or lines or [""])[-1]


def _ending(exit_status: int, *, is_own_kill: bool) -> str:
    if exit_status == -9 and is_own_kill:
        return "the server ended itself by SIGKILL"
    if exit_status < 0:
        return f"the server was ended by signal {-exit_status}"
    return f"the server ended by itself with status {exit_status}"
