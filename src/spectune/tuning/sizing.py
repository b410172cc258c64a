"""How many requests each level gets, from a first look at the server's speed and the measuring budget. Pure.

    symbol   meaning                                                             unit
    C        concurrency of the level                                            1
    R        output speed at C, log-log between the pilot's readings             tokens/s
    m        mean output tokens of a request                                     1
    d        time of one request at C: C · m ÷ R                                 s
    cell_s   (budget − settings · (launch + 0.5)) ÷ (settings · levels)          s
    n        requests: n · m ÷ R + d ÷ 2 + warm-up = cell_s                      1

The speed is that of the first launch; faster settings leave time over. A level has at least
three waves (two where prompts are few), whatever the budget: the first fills the slots, the last empties
them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from spectune.workloads.load_plan import WARMUP_TOKENS, LevelSize

MIN_REQUESTS, MIN_WAVES, WANTED_WAVES = 12, 2, 3
THOROUGH_REQUESTS, THOROUGH_WAVES = 200, 8
_STOP_S = 0.5
_MAX_SPREAD_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotReading:
    """What a first look gave at one concurrency.

    Attributes:
        concurrency: requests in flight.
        output_tps: tokens per second.
        mean_output_tokens: per request.
    """

    concurrency: int
    output_tps: float
    mean_output_tokens: float


def size_levels(
    readings: Sequence[PilotReading],
    concurrency: Sequence[int],
    *,
    budget_s: float | None,
    num_settings: int,
    launch_s: float,
    num_prompts: int,
) -> tuple[LevelSize, ...]:
    """One size per level: what the budget allows, at least three waves, within the prompts there are.

    When even the least does not fit into the prompts, it is returned all the same and planning refuses it.

    Args:
        readings: one or more, ascending in concurrency.
        concurrency: levels.
        budget_s: measuring seconds of the whole study, launches included; None: 200 requests and 8 waves.
        num_settings: settings that may come.
        launch_s: seconds of a launch.
        num_prompts: distinct prompts left.
    """
    levels = [_Level(count, *_speed(readings, count)) for count in concurrency]
    if budget_s is None:
        wanted = [max(THOROUGH_REQUESTS, THOROUGH_WAVES * level.concurrency) for level in levels]
    else:
        cell_s = (budget_s - num_settings * (launch_s + _STOP_S)) / (num_settings * len(levels))
        wanted = [max(level.requests_in(cell_s), level.min_requests) for level in levels]
    return tuple(
        LevelSize(
            concurrency=level.concurrency,
            num_requests=num_requests,
            num_warmup=num_warmup,
            spread_s=min(level.request_s / 3, _MAX_SPREAD_S) if level.concurrency > 1 else 0.0,
        )
        for level, num_requests, num_warmup in zip(levels, *_fit(levels, wanted, num_prompts), strict=True)
    )


def least_prompts(concurrency: Sequence[int]) -> int:
    """The fewest prompts with which every level can be measured: two waves and one to warm up."""
    return sum(MIN_WAVES * level + 1 for level in concurrency)


@dataclass(frozen=True, slots=True)
class _Level:
    concurrency: int
    output_tps: float
    mean_output_tokens: float

    @property
    def request_s(self) -> float:
        return self.concurrency * self.mean_output_tokens / self.output_tps

    @property
    def min_requests(self) -> int:
        return max(WANTED_WAVES * self.concurrency, MIN_REQUESTS)

    def requests_in(self, cell_s: float) -> int:
        warmup_s = self.concurrency * WARMUP_TOKENS / self.output_tps
        left_s = cell_s - warmup_s - self.request_s / 2
        return math.floor(left_s * self.output_tps / self.mean_output_tokens)


def _speed(readings: Sequence[PilotReading], concurrency: int) -> tuple[float, float]:
    """Tokens per second and tokens per request at a concurrency, between or beyond the readings."""
    first, last = readings[0], readings[-1]
    if first.concurrency == last.concurrency:
        return first.output_tps, first.mean_output_tokens
    share = math.log(concurrency / first.concurrency) / math.log(last.concurrency / first.concurrency)
    tps = first.output_tps * (last.output_tps / first.output_tps) ** share
    return tps, (first.mean_output_tokens + last.mean_output_tokens) / 2


def _fit(levels: Sequence[_Level], wanted: Sequence[int], num_prompts: int) -> tuple[list[int], list[int]]:
    """Counted and warm-up requests per level, cut to the prompts: first to three waves, then to two."""
    warmup = [level.concurrency for level in levels]
    least = [level.min_requests for level in levels]
    if sum(wanted) + sum(warmup) <= num_prompts:
        return list(wanted), warmup
    if sum(least) + sum(warmup) <= num_prompts:
        spare = num_prompts - sum(least) - sum(warmup)
        over = sum(wanted) - sum(least)
        cut = [low + (want - low) * spare // over for low, want in zip(least, wanted, strict=True)]
        return cut, warmup
    return [MIN_WAVES * level.concurrency for level in levels], [1] * len(levels)
