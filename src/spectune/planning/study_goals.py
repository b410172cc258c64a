"""A study's proof rule → goals: a level each, or its mix; latency limits as least speeds.

At one level a request's latency and the tokens/s of all requests are two views of one closed loop, so a
quantile of a latency is taken to be inverse to them:

    l_q = r · C ÷ y        floor = r · C ÷ limit

Symbols
    l_q    quantile of a latency that a limit names                        s
    C      concurrency                                                     requests
    y      output tokens of all requests per second                        1/s
    r      measured l_q · y ÷ C: tokens a request waits for, so to speak   tokens
    floor  least y that keeps the limit                                    1/s

A measured setting has its own r; one that was not measured takes the geometric mean of those measured at the
level. Where nothing was measured, nothing is known of latency and there is no floor. For `tpot` and `e2e`
the form is close to their definition; `ttft` holds waiting and prefill too, which do not shrink with y, so a
predicted floor is rough there until the setting itself is measured.
"""

import math
from collections.abc import Sequence

from spectune.domain.mix import level_weights
from spectune.domain.study import ProofRule, Study
from spectune.metrics.quantiles import stand_in
from spectune.metrics.summary import LevelSummary
from spectune.perfmodel.history_evidence import Lesson
from spectune.planning.goals import Choice, Goal, per_level

_Scale = tuple[Choice, int, float]  # choice, level, least tokens/s


def goals_of(study: Study, lessons: Sequence[Lesson]) -> tuple[Goal, ...]:
    """What the study's settings are compared by."""
    floors = _floors(study.proof, lessons)
    if not study.proof.mix:
        return tuple(
            Goal(name=g.name, weights=g.weights, floors=_of_levels(floors, g.concurrency))
            for g in per_level(study.concurrency)
        )
    weights = level_weights(study.proof.mix, study.concurrency)
    return (Goal(name="the mix", weights=tuple(weights.items()), floors=_of_levels(floors, tuple(weights))),)


def _of_levels(
    floors: Sequence[tuple[Choice | None, int, float]], levels: Sequence[int]
) -> tuple[tuple[Choice | None, int, float], ...]:
    return tuple(floor for floor in floors if floor[1] in levels)


def _floors(proof: ProofRule, lessons: Sequence[Lesson]) -> list[tuple[Choice | None, int, float]]:
    """The strictest floor of every measured choice and level, and of all others at the level."""
    found: dict[tuple[Choice | None, int], float] = {}
    for name, limit_s in proof.slo:
        scales = _scales(lessons, name)
        for choice, level, scale in scales:
            key = (choice, level)
            found[key] = max(found.get(key, 0.0), scale * level / limit_s)
        for level in sorted({level for _, level, _ in scales}):
            logs = [math.log(scale) for _, at, scale in scales if at == level]
            usual = math.exp(sum(logs) / len(logs)) * level / limit_s
            found[None, level] = max(found.get((None, level), 0.0), usual)
    return [(choice, level, tps) for (choice, level), tps in found.items()]


def _scales(lessons: Sequence[Lesson], name: str) -> list[_Scale]:
    """R of every measured cell; the last launch counts."""
    found: dict[tuple[Choice, int], float] = {}
    for lesson in lessons:
        for _, summary in lesson.levels:
            latency_s = latency_of(summary, name)
            if latency_s and summary.output_tps:
                choice = Choice(setting=lesson.setting, lever=lesson.lever)
                scale = latency_s * summary.output_tps / summary.concurrency
                found[choice, summary.concurrency] = scale
    return [(choice, level, scale) for (choice, level), scale in found.items()]


def latency_of(summary: LevelSummary, name: str) -> float | None:
    """The quantile that a limit such as "ttft_p99" is judged by, seconds (metrics/quantiles.stand_in)."""
    metric, _, quantile = name.partition("_")
    found = {"ttft": summary.ttft_s, "tpot": summary.tpot_s, "e2e": summary.e2e_s}[metric]
    judged = stand_in(found, quantile)
    return None if judged is None else judged[1]
