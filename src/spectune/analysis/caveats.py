"""Signs that a figure should not be trusted: a wrong draft, degenerate text, bad counters, used prompts."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from spectune.analysis.launches import MeasuredLevel
from spectune.domain.spec_config import SpecConfig
from spectune.domain.study import StudyHistory
from spectune.metrics.acceptance import setting_faults

CaveatKind = Literal["no acceptance", "all accepted", "acceptance falls", "unreadable counters", "not fresh"]
_NO_GAIN = 1.05
_CEILING = 0.95
_FALL = 0.25  # of what is accepted beyond the first token; each level has prompts of its own


@dataclass(frozen=True, slots=True, kw_only=True)
class Caveat:
    """One sign.

    Attributes:
        kind: which.
        config: the setting it was seen with; None where it concerns the study.
        concurrency: levels it was seen at, ascending.
        value: acceptance length, share of the accepted tokens it fell by, or share of fresh prompts that
            are none.
        detail: the identity that is broken, of unreadable counters.
    """

    kind: CaveatKind
    config: SpecConfig | None
    concurrency: tuple[int, ...]
    value: float = 0.0
    detail: str = ""


def find_caveats(history: StudyHistory, cells: Iterable[MeasuredLevel]) -> tuple[Caveat, ...]:
    """Every sign, setting by setting."""
    by_config: dict[SpecConfig, list[MeasuredLevel]] = {}
    for cell in cells:
        if cell.arm.is_setting and not cell.arm.config.is_off:
            by_config.setdefault(cell.arm.config, []).append(cell)
    found = [caveat for config, own in by_config.items() for caveat in _of(config, own)]
    return (*found, *_not_fresh(history))


def _of(config: SpecConfig, cells: Sequence[MeasuredLevel]) -> Iterable[Caveat]:
    lengths: dict[int, float] = {}
    for cell in cells:
        if cell.summary.acceptance_length is not None and cell.part == "search":
            lengths.setdefault(cell.summary.concurrency, cell.summary.acceptance_length)
    if lengths and max(lengths.values()) < _NO_GAIN:
        worst = max(lengths.values())
        yield Caveat(kind="no acceptance", config=config, concurrency=_sorted(lengths), value=worst)
    high = {c: value for c, value in lengths.items() if value > _CEILING * (config.num_steps + 1)}
    if high:
        highest = max(high.values())
        yield Caveat(kind="all accepted", config=config, concurrency=_sorted(high), value=highest)
    ends = (min(lengths), max(lengths)) if lengths else (0, 0)
    fall = (
        1 - (lengths[ends[1]] - 1) / (lengths[ends[0]] - 1)
        if lengths and lengths[ends[0]] > _NO_GAIN
        else 0.0
    )
    if fall > _FALL:
        yield Caveat(kind="acceptance falls", config=config, concurrency=ends, value=fall)
    faults = {cell.summary.concurrency: fault for cell in cells for fault in _faults(cell)[:1]}
    if faults:
        first = faults[min(faults)]
        yield Caveat(kind="unreadable counters", config=config, concurrency=_sorted(faults), detail=first)


def _sorted(levels: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(levels))


def _faults(cell: MeasuredLevel) -> tuple[str, ...]:
    if cell.measurement.counters is None:
        return ()
    good = [record for record in cell.measurement.records if record.is_ok]
    tokens = sum(record.output_tokens or 0 for record in good)
    return setting_faults(
        cell.measurement.counters, cell.arm.config, num_requests=len(good), output_tokens=tokens
    )


def _not_fresh(history: StudyHistory) -> Iterable[Caveat]:
    """Fresh plans that had to take up prompts of the search again."""
    searched = {request.body for plan in history.plans if plan.part == "search" for request in plan.requests}
    fresh = [plan for plan in history.plans if plan.part == "fresh"]
    repeated = {
        plan.concurrency: share
        for plan in fresh
        if (share := sum(r.body in searched for r in plan.requests) / len(plan.requests)) > 0
    }
    if repeated:
        yield Caveat(
            kind="not fresh", config=None, concurrency=_sorted(repeated), value=max(repeated.values())
        )
