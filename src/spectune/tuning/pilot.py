"""A first look at the first server's speed, which doubles as its warm-up, and the load plans that follow."""

from collections.abc import Sequence

from spectune.loadgen.driver import LoadRun
from spectune.metrics.steady_state import steady_window
from spectune.metrics.throughput import output_speed
from spectune.tuning.bench import Bench
from spectune.tuning.sizing import PilotReading
from spectune.tuning.trial_failure import TrialFailed
from spectune.workloads.load_plan import pilot_requests
from spectune.workloads.prompts import Prompt, PromptPool

PILOT_S = 1.0
_MAX_LOOKS, _STILL_WARMING = 4, 1.25
_MAX_REQUESTS_PER_SLOT = 12


def num_pilot_prompts(pool: PromptPool, concurrency: Sequence[int]) -> int:
    """How many prompts at the head of the pool the pilot may use, whether or not it needs them all."""
    wanted = sum(_MAX_REQUESTS_PER_SLOT + 2 * count for count in _pilot_levels(concurrency))
    return max(min(wanted, len(pool.prompts) // 8), 1)


def run_pilot(bench: Bench, pool: PromptPool, concurrency: Sequence[int]) -> tuple[PilotReading, ...]:
    """Readings at the lowest and the highest level, some seconds each; raises TrialFailed."""
    prompts = list(pool.prompts[: num_pilot_prompts(pool, concurrency)])
    levels = _pilot_levels(concurrency)
    low = min(_MAX_REQUESTS_PER_SLOT, max(len(prompts) // 2, 1)) if len(levels) > 1 else len(prompts)
    readings = [_reading(bench, prompts[:low], levels[0])]
    if len(levels) > 1:
        readings.append(_reading(bench, prompts[low:] or prompts, levels[1]))
    return tuple(readings)


def _pilot_levels(concurrency: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted({concurrency[0], concurrency[-1]}))


def _reading(bench: Bench, prompts: Sequence[Prompt], concurrency: int) -> PilotReading:
    """Looks again while the last look was much faster than the one before: the server was warming up.

    No prompt is sent twice: a cached one would look like a faster server.
    """
    reading, used = _look(bench, prompts, concurrency)
    for _ in range(_MAX_LOOKS - 1):
        prompts = prompts[used:]
        if len(prompts) < concurrency:
            break
        before = reading
        reading, used = _look(bench, prompts, concurrency)
        if reading.output_tps <= _STILL_WARMING * before.output_tps:
            break
    return reading


def _look(bench: Bench, prompts: Sequence[Prompt], concurrency: int) -> tuple[PilotReading, int]:
    """A reading of about a second, and how many of the prompts it took."""
    requests = pilot_requests(prompts)
    concurrency = min(concurrency, len(requests))
    run = bench.load(
        requests, concurrency, what=f"pilot at concurrency {concurrency}", stop_sending_after_s=PILOT_S
    )
    tokens = [record.output_tokens or 0 for record in run.records if record.is_ok]
    if not sum(tokens):
        raise TrialFailed("bad_answer", "pilot: `some output tokens` must come, got none in any answer.")
    reading = PilotReading(
        concurrency=concurrency,
        output_tps=_speed(run, concurrency, sum(tokens)),
        mean_output_tokens=sum(tokens) / len(tokens),
    )
    return reading, len(run.records)


def _speed(run: LoadRun, concurrency: int, tokens: int) -> float:
    """Tokens per second in the steady window, or over the whole run where that is too short."""
    window = steady_window(run.records, concurrency)
    tps = 0.0 if window is None else output_speed(run.records, window).tps
    return tps or tokens / run.wall_s
