"""One level's figures: raw records and counters in, everything the study's JSON says of a level out.

All figures are recomputed from raw facts; nothing here is stored.
"""

from dataclasses import dataclass

from spectune.domain.measurement import LevelMeasurement


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantiles:
    """Quantiles of a sample of seconds; `p99` only from 200 values on, all None for an empty sample."""

    p50: float | None
    p90: float | None
    p99: float | None


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


def summarise_level(level: LevelMeasurement) -> LevelSummary:
    """The figures of one measured level."""
    raise NotImplementedError(level)
