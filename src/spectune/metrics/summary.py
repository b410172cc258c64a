"""One level's figures: raw records and counters in, everything the study's JSON says of a level out.

    output_tps = mean_running × tokens_per_step ÷ step_s          (exactly, by the definition of step_s)

    symbol           meaning                                                    unit
    steps            sequence steps of the level: verify + undrafted            1
    tokens_per_step  output tokens of the level ÷ steps                         1
    mean_running     mean sequences between first and last chunk, in the window 1
    step_s           mean_running ÷ (steps per second in the window), where the window's steps are its
                     tokens ÷ tokens_per_step: the mean wall time of one engine step as a running sequence
                     sees it, prefill of others and waiting between steps included              s

All figures are recomputed from raw facts; nothing here is stored.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from spectune.domain.measurement import LevelMeasurement, SpecCounters
from spectune.domain.workload import Part
from spectune.metrics.acceptance import acceptance_length, accepted_per_position, counter_faults
from spectune.metrics.foreign_traffic import foreign_requests
from spectune.metrics.latency import e2e_s, tpot_s, ttft_s
from spectune.metrics.quantiles import Quantiles, quantiles
from spectune.metrics.steady_state import Window, mean_running, steady_window
from spectune.metrics.throughput import OutputSpeed, output_speed, request_tps

MAX_FOREIGN_CPU_SHARE = 0.10


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelSummary:
    """Figures of one measured level.

    Attributes:
        concurrency: requests kept in flight by the client.
        num_requests: requests sent (errors included).
        errors: requests that failed.
        window_s: length of the steady window; 0 when there was none.
        output_tps: output tokens inside the window ÷ its length; None when there was no window.
        output_tps_ci: its 95 % interval; None where the window is too short to tell.
        request_tps: median over requests of output tokens ÷ (end − send).
        ttft_s: first content chunk − send.
        tpot_s: (last − first chunk) ÷ (output tokens − 1).
        e2e_s: end − send.
        mean_running: mean number of sequences between first and last chunk, over the window.
        tokens_per_step: output tokens ÷ sequence steps (verify + undrafted); None without counters.
        step_s: mean wall seconds of one engine step as a sequence sees it; None without counters.
        acceptance_length: 1 + accepted ÷ verify_steps; None when nothing was verified.
        accepted_per_position: share of verify steps whose draft was accepted up to and including
            each position; empty where the engine does not say.
        verify_steps: sequences × verification forwards that had a draft; None without counters.
        undrafted_steps: sequences × decode forwards without a draft; None without counters.
        drafted_tokens: draft tokens verified; None without counters.
        accepted_tokens: draft tokens accepted; None without counters.
        foreign_cpu_share: CPU of processes that are not ours, as a share of one core; None if unread.
        disturbed: whether that share was above 10 %.
        attempt: 0, or 1 when the level was measured again.
        part: which prompts were sent.
    """

    concurrency: int
    num_requests: int
    errors: int
    window_s: float
    output_tps: float | None
    output_tps_ci: tuple[float, float] | None
    request_tps: float | None
    ttft_s: Quantiles
    tpot_s: Quantiles
    e2e_s: Quantiles
    mean_running: float | None
    tokens_per_step: float | None
    step_s: float | None
    acceptance_length: float | None
    accepted_per_position: tuple[float, ...]
    verify_steps: int | None
    undrafted_steps: int | None
    drafted_tokens: int | None
    accepted_tokens: int | None
    foreign_cpu_share: float | None
    disturbed: bool
    attempt: int
    part: Part = "search"


def is_disturbed(level: LevelMeasurement) -> bool:
    """Whether processes that are not ours used more than 10 % of one core; False where it is unknown."""
    return level.foreign_cpu_share is not None and level.foreign_cpu_share > MAX_FOREIGN_CPU_SHARE


def summarise_level(level: LevelMeasurement) -> LevelSummary:
    """The figures of one measured level. The order of its records does not matter."""
    good = [record for record in level.records if record.is_ok]
    window = _window(level)
    speed = None if window is None else output_speed(good, window)
    running = None if window is None else mean_running(good, window)
    counters = level.counters
    tokens_per_step = _tokens_per_step(counters, sum(record.output_tokens or 0 for record in good))
    can_be_true = counters is not None and not counter_faults(counters)
    return LevelSummary(
        concurrency=level.concurrency,
        num_requests=len(level.records),
        errors=len(level.records) - len(good),
        window_s=0.0 if window is None else window.length_s,
        output_tps=None if speed is None else speed.tps,
        output_tps_ci=None if speed is None or level.part == "ramp" else speed.interval,
        request_tps=request_tps(good),
        ttft_s=quantiles(ttft_s(record) for record in good),
        tpot_s=quantiles(tpot_s(record) for record in good),
        e2e_s=quantiles(e2e_s(record) for record in good),
        mean_running=running,
        tokens_per_step=tokens_per_step if can_be_true else None,
        step_s=_step_s(speed, running, tokens_per_step if can_be_true else None),
        acceptance_length=acceptance_length(counters) if counters and can_be_true else None,
        accepted_per_position=accepted_per_position(counters) if counters and can_be_true else (),
        verify_steps=None if counters is None else counters.verify_steps,
        undrafted_steps=None if counters is None else counters.undrafted_steps,
        drafted_tokens=None if counters is None else counters.drafted_tokens,
        accepted_tokens=None if counters is None else counters.accepted_tokens,
        foreign_cpu_share=level.foreign_cpu_share,
        disturbed=is_disturbed(level),
        attempt=level.attempt,
        part=level.part,
    )


def _window(level: LevelMeasurement) -> Window | None:
    """The steady window; of a load that goes up and down the whole of it."""
    if level.part != "ramp":
        return steady_window(level.records, level.concurrency)
    good = [record for record in level.records if record.is_ok]
    if not good:
        return None
    window = Window(
        start_s=min(record.sent_at_s for record in good), end_s=max(record.ended_at_s for record in good)
    )
    return window if window.length_s > 0 else None


def settle_levels(levels: Iterable[LevelMeasurement]) -> tuple[LevelMeasurement, ...]:
    """One measurement per concurrency and part, ascending; of two the less disturbed, on a tie the later.

    One during which the server also answered somebody else comes last.
    """
    chosen: dict[tuple[int, Part], LevelMeasurement] = {}
    for level in sorted(levels, key=lambda level: level.attempt):
        cell = (level.concurrency, level.part)
        other = chosen.get(cell)
        if other is None or _disturbance(level) <= _disturbance(other):
            chosen[cell] = level
    return tuple(chosen[cell] for cell in sorted(chosen))


def _disturbance(level: LevelMeasurement) -> tuple[bool, float]:
    return bool(foreign_requests(level)), level.foreign_cpu_share or 0.0


def _tokens_per_step(counters: SpecCounters | None, output_tokens: int) -> float | None:
    steps = 0 if counters is None else counters.verify_steps + counters.undrafted_steps
    return output_tokens / steps if steps > 0 else None


def _step_s(speed: OutputSpeed | None, running: float | None, tokens_per_step: float | None) -> float | None:
    if speed is None or not speed.tps or running is None or tokens_per_step is None:
        return None
    return running * tokens_per_step / speed.tps
