"""A study's raw history → what the model learns from.

Only completed trials teach speed. Settings are those in force, not those asked for. Acceptance of settings
that were not launched comes from the counters per position of the longest chain.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from spectune.domain.measurement import LevelMeasurement
from spectune.domain.spec_config import SpecConfig
from spectune.domain.trial import Completed, TrialOutcome
from spectune.metrics.summary import LevelSummary, settle_levels, summarise_level
from spectune.perfmodel.acceptance_model import PositionCounts, shorter_drafts
from spectune.perfmodel.capacity_beliefs import curves_under
from spectune.perfmodel.evidence import AcceptanceRow, Cell, Evidence, Setting, SpeedRow, split_overload

PAIRED_SHARE = (
    0.5  # prompts are the same for every setting: about half of a level's interval is common to all
)
_NORMAL_95 = 1.96


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """One completed trial, figures computed.

    Attributes:
        setting: in force.
        lever: capacity flags it ran with; "" for the command's own.
        launch: number among the launches of this setting and lever, from 0.
        max_running_requests: as read back.
        levels: raw levels with their figures, prompts of the search only.
    """

    setting: Setting
    lever: str
    launch: int
    max_running_requests: int | None
    levels: tuple[tuple[LevelMeasurement, LevelSummary], ...]


def setting_of(config: SpecConfig) -> Setting:
    """The part of a setting that bears on speed."""
    return Setting(num_steps=config.num_steps, topk=config.topk, num_draft_tokens=config.num_draft_tokens)


def evidence_of(
    lessons: Sequence[Lesson], settings: Iterable[Setting], levers: Sequence[str] = ()
) -> Evidence:
    """Everything completed trials teach; capacity and acceptance also for `settings` and `levers`."""
    wanted = tuple(settings)
    sound, _ = split_overload(tuple(row for lesson in lessons for row in _speeds(lesson)))
    tokens = {s.num_draft_tokens for s in wanted} | {lesson.setting.num_draft_tokens for lesson in lessons}
    readbacks = {lever: _readbacks(lessons, lever) for lever in ("", *levers)}
    return Evidence(
        speeds=sound,
        acceptance=_acceptance(lessons, wanted),
        capacity=curves_under(readbacks, sorted(tokens)),
    )


def lessons_of(outcomes: Sequence[TrialOutcome]) -> tuple[Lesson, ...]:
    """Completed trials in order of launch."""
    lessons: list[Lesson] = []
    for outcome in outcomes:
        if not isinstance(outcome, Completed):
            continue
        setting, lever = setting_of(outcome.effective.config), outcome.trial.lever
        raw = [level for level in settle_levels(outcome.levels) if level.part == "search"]
        lessons.append(
            Lesson(
                setting=setting,
                lever=lever,
                launch=sum((lesson.setting, lesson.lever) == (setting, lever) for lesson in lessons),
                max_running_requests=outcome.effective.max_running_requests,
                levels=tuple((level, summarise_level(level)) for level in raw),
            )
        )
    return tuple(lessons)


def _speeds(lesson: Lesson) -> list[SpeedRow]:
    rows = []
    for _, summary in lesson.levels:
        if not summary.output_tps or summary.errors:
            continue
        spread = 0.0
        if summary.output_tps_ci is not None:
            low, high = summary.output_tps_ci
            spread = PAIRED_SHARE * max(0.0, high - low) / (2 * _NORMAL_95 * summary.output_tps)
        cell = Cell(setting=lesson.setting, concurrency=summary.concurrency, lever=lesson.lever)
        rows.append(SpeedRow(cell=cell, output_tps=summary.output_tps, launch=lesson.launch, log_sd=spread))
    return rows


def _acceptance(lessons: Sequence[Lesson], wanted: Sequence[Setting]) -> tuple[AcceptanceRow, ...]:
    """Counted lengths of launched settings, and estimates for shorter chains of the rest."""
    rows: dict[Setting, AcceptanceRow] = {}
    longest: PositionCounts | None = None
    for lesson in sorted(lessons, key=lambda one: one.setting):
        if lesson.setting.is_off:
            continue
        steps, accepted, positions = _counts(lesson)
        if steps:
            rows[lesson.setting] = AcceptanceRow(
                setting=lesson.setting,
                workload="",
                acceptance_length=1.0 + accepted / steps,
                log_sd=math.hypot(0.005, 0.5 / math.sqrt(steps)),
            )
        if steps and lesson.setting.topk == 1 and len(positions) == lesson.setting.num_steps:
            longest = PositionCounts(verify_steps=steps, accepted=positions)
    missing = [s.num_steps for s in wanted if s.topk == 1 and s not in rows]
    shorter = () if longest is None else shorter_drafts(longest, workload="", num_steps=missing)
    return (*rows.values(), *shorter)


def _counts(lesson: Lesson) -> tuple[int, int, tuple[int, ...]]:
    """Verify steps, accepted tokens and accepted by position over the levels whose counters can be true."""
    steps = accepted = 0
    positions: list[int] = [0] * lesson.setting.num_steps
    for level, summary in lesson.levels:
        if level.counters is None or summary.acceptance_length is None:
            continue
        steps += level.counters.verify_steps
        accepted += level.counters.accepted_tokens
        seen = level.counters.accepted_per_position
        positions = [a + b for a, b in zip(positions, seen, strict=False)]
    return steps, accepted, tuple(positions)


def _readbacks(lessons: Sequence[Lesson], lever: str) -> dict[int, int]:
    """Capacity by draft tokens, the lowest of repeats; what would grow with draft tokens is held level."""
    found: dict[int, int] = {}
    for lesson in sorted(lessons, key=lambda one: one.setting.num_draft_tokens):
        if lesson.max_running_requests is not None and lesson.lever == lever:
            tokens = lesson.setting.num_draft_tokens
            found[tokens] = min([lesson.max_running_requests, *found.values()])
    return found
