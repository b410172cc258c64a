"""Signs not to trust a figure: a wrong draft, degenerate text, bad counters, used prompts, an odd cell."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from spectune.analysis.launches import MeasuredLevel
from spectune.domain.spec_config import OFF_METHOD, SpecConfig
from spectune.domain.study import StudyHistory
from spectune.domain.trial import Completed
from spectune.metrics.acceptance import setting_faults
from spectune.perfmodel.history_evidence import evidence_of, lessons_of, setting_of
from spectune.perfmodel.priors import DEFAULT_PRIOR
from spectune.perfmodel.surprises import Surprise, surprises

CaveatKind = Literal[
    "no acceptance", "all accepted", "acceptance falls", "unreadable counters", "not fresh", "surprising"
]
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
        surprise: what the other cells expect, of a surprising one.
    """

    kind: CaveatKind
    config: SpecConfig | None
    concurrency: tuple[int, ...]
    value: float = 0.0
    detail: str = ""
    surprise: Surprise | None = None


def find_caveats(history: StudyHistory, cells: Iterable[MeasuredLevel]) -> tuple[Caveat, ...]:
    """Every sign, setting by setting."""
    by_config: dict[SpecConfig, list[MeasuredLevel]] = {}
    for cell in cells:
        if cell.arm.is_setting and not cell.arm.config.is_off:
            by_config.setdefault(cell.arm.config, []).append(cell)
    found = [caveat for config, own in by_config.items() for caveat in _of(config, own)]
    return (*found, *_not_fresh(history), *_surprising(history))


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


def _surprising(history: StudyHistory) -> Iterable[Caveat]:
    """Cells of the search that the rest of their method's surface does not expect; off belongs to each."""
    searched = [o for o in history.outcomes if isinstance(o, Completed) and o.trial.is_of_search]
    found: dict[tuple[SpecConfig, int], Caveat] = {}
    for method in dict.fromkeys(o.trial.config.method for o in searched if not o.trial.config.is_off):
        own = [o for o in searched if o.trial.config.method in (method, OFF_METHOD)]
        configs = {setting_of(o.effective.config): o.trial.config for o in own}
        evidence = evidence_of(lessons_of(own), configs, sorted({o.trial.lever for o in own} - {""}))
        for one in surprises(evidence, prior=DEFAULT_PRIOR):
            config, level = configs[one.row.cell.setting], one.row.cell.concurrency
            caveat = Caveat(kind="surprising", config=config, concurrency=(level,), surprise=one)
            found.setdefault((config, level), caveat)
    return found.values()
