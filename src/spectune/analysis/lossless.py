"""Whether speculation changes greedy answers, beyond what off changes of its own.

Batching changes the order of floating-point sums, so off does not always answer the same request alike: off
against off, on the same requests in two launches, is the noise floor. Then every speculating arm against
off. Once two answers part they stay apart, so what is counted is how often, per token still in agreement,
an answer parts:

- every answer alike: exact;
- off repeats itself without a difference, speculation does not: it differs;
- off parts from itself k0 times in n0 tokens, speculation from off k1 times in n1: it differs when k1 of
  k0 + k1 is more than chance puts on n1's share (binomial, below 1 %), else it is within the noise floor.

Levels above those the floor was measured at batch more; where the others have tokens enough to show one
fault in a thousand, they alone are judged. Sampled answers are not compared.

Answers that are what was asked for are counted beside off's by the same test, answer by answer: calls within
one answer are not independent, so they are shown and not judged.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from scipy.special import bdtrc

from spectune.analysis.answer_texts import (
    NO_FORMATS,
    CellKey,
    Comparison,
    Divergence,
    Formats,
    compare_answers,
    count_valid,
    formats_of,
)
from spectune.analysis.launches import OFF_ARM, Arm, MeasuredLevel
from spectune.analysis.tool_answers import alike_kept, count_calls
from spectune.domain.measurement import RequestRecord
from spectune.domain.study import NO_PROOF, StudyHistory

LosslessVerdict = Literal["exact", "within the noise floor", "differs", "not checked"]
LEAST_TOKENS = 1000
"""Fewer compared tokens than these say nothing."""
ENOUGH_TOKENS = 7000
"""In so many, a fault in a thousand stays unseen once in a thousand times."""
_CHANCE = 0.01
_ORDER: tuple[LosslessVerdict, ...] = ("differs", "not checked", "within the noise floor", "exact")


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmLossless:
    """One speculating arm against off.

    Attributes:
        arm: the setting or schedule.
        found: its answers beside off's.
        valid: (answers of its that are what was asked for, how many were asked).
        valid_off: the same of off's.
        calls: (calls of tools whose function and arguments its requests allow, how many it made).
        calls_off: the same of off's.
        verdict: in a word.
    """

    arm: Arm
    found: Comparison
    valid: tuple[int, int]
    valid_off: tuple[int, int]
    calls: tuple[int, int]
    calls_off: tuple[int, int]
    verdict: LosslessVerdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Lossless:
    """Whether speculation changes the answers.

    Attributes:
        floor: off against off; without answers where off was measured once.
        arms: every speculating arm.
        calls_off: as in ArmLossless, of off's answers that any arm's were held against, each once.
        verdict: the worst of theirs.
        why: why nothing was checked, "" otherwise.
    """

    floor: Comparison
    arms: tuple[ArmLossless, ...]
    calls_off: tuple[int, int]
    verdict: LosslessVerdict
    why: str

    @property
    def checked_tokens(self) -> int:
        """Tokens of off's answers that speculation was held against, over all arms."""
        return sum(one.found.tokens for one in self.arms)

    @property
    def total(self) -> Comparison:
        """All arms together."""
        return sum((one.found for one in self.arms), Comparison())

    @property
    def first(self) -> Divergence | None:
        """The earliest divergence of any arm."""
        return self.total.first


def answer_lossless(history: StudyHistory, cells: Iterable[MeasuredLevel]) -> Lossless:
    """The study's answer: checked where that was asked for."""
    proof = history.study.proof
    if proof.is_lossless:
        return check_lossless(history, cells)
    return _unchecked("it was not asked for" if proof == NO_PROOF else "--no-check-lossless was given")


def check_lossless(history: StudyHistory, cells: Iterable[MeasuredLevel]) -> Lossless:
    """Every speculating arm's greedy answers against off's."""
    temperature = history.study.workload.temperature
    if temperature is not None and temperature > 0:
        return _unchecked(f"answers are sampled at temperature {temperature:g}")
    formats = formats_of(history)
    if temperature is None and not formats:
        return _unchecked("the requests say their own temperature and are not known")
    greedy = [cell for cell in cells if cell.part != "ramp"]
    off = [cell for cell in greedy if cell.arm == OFF_ARM]
    if not off:
        return _unchecked("off was not measured")
    floor, highest = _floor(off, formats)
    arms = dict.fromkeys(cell.arm for cell in greedy if not cell.arm.config.is_off)
    judged = tuple(
        _judge([cell for cell in greedy if cell.arm == arm], off, formats, (floor, highest)) for arm in arms
    )
    if not judged:
        return _unchecked("no speculation was measured")
    verdict = min((one.verdict for one in judged), key=_ORDER.index)
    return Lossless(
        floor=floor,
        arms=judged,
        calls_off=_calls_once(greedy, off, formats),
        verdict=verdict,
        why=_reason(verdict, judged, floor),
    )


def _unchecked(why: str) -> Lossless:
    return Lossless(floor=Comparison(), arms=(), calls_off=(0, 0), verdict="not checked", why=why)


def _reason(verdict: LosslessVerdict, judged: tuple[ArmLossless, ...], floor: Comparison) -> str:
    if verdict != "not checked":
        return ""
    if any(one.found.differing for one in judged) and not floor.answers:
        return "answers differ, and off was measured once, so its own noise is unknown"
    if any(one.found.differing for one in judged):
        return "answers differ only at levels above those at which off was measured twice"
    fewest = min(one.found.tokens for one in judged)
    return f"only {fewest} tokens of common greedy answers, {LEAST_TOKENS} are needed"


def _key(cell: MeasuredLevel) -> CellKey:
    return cell.measurement.concurrency, cell.part


def _greedy(cell: MeasuredLevel, formats: Mapping[CellKey, Formats]) -> list[RequestRecord]:
    sampled = formats.get(_key(cell), NO_FORMATS).sampled
    return [record for record in cell.measurement.records if record.index not in sampled]


def _floor(off: list[MeasuredLevel], formats: Mapping[CellKey, Formats]) -> tuple[Comparison, int]:
    """Off against off, and the highest level at which that is known."""
    total, highest, first = Comparison(), 0, dict[CellKey, MeasuredLevel]()
    for cell in off:
        base = first.setdefault(_key(cell), cell)
        if base is not cell:
            level = cell.measurement.concurrency
            total += compare_answers(level, _greedy(base, formats), _greedy(cell, formats))
            highest = max(highest, level)
    return total, highest


@dataclass(frozen=True, slots=True, kw_only=True)
class _Counts:
    """Answers and calls that are what was asked for, of an arm and of off, as in ArmLossless."""

    valid: tuple[int, int] = (0, 0)
    valid_off: tuple[int, int] = (0, 0)
    calls: tuple[int, int] = (0, 0)
    calls_off: tuple[int, int] = (0, 0)

    @classmethod
    def of(cls, ours: list[RequestRecord], offs: list[RequestRecord], wanted: Formats) -> "_Counts":
        return cls(
            valid=count_valid(ours, wanted),
            valid_off=count_valid(offs, wanted),
            calls=count_calls(ours, wanted.tools),
            calls_off=count_calls(offs, wanted.tools),
        )

    def __add__(self, other: "_Counts") -> "_Counts":
        return _Counts(
            valid=_sum(self.valid, other.valid),
            valid_off=_sum(self.valid_off, other.valid_off),
            calls=_sum(self.calls, other.calls),
            calls_off=_sum(self.calls_off, other.calls_off),
        )

    @property
    def is_worse(self) -> bool:
        """Whether answers are what was asked for less often than off's, by more than chance."""
        return _breaks_formats(self.valid, self.valid_off)


def _judge(
    own: list[MeasuredLevel],
    off: list[MeasuredLevel],
    formats: Mapping[CellKey, Formats],
    floor: tuple[Comparison, int],
) -> ArmLossless:
    base = _first(off)
    total = near = Comparison()
    counts = _Counts()
    for cell in own:
        if _key(cell) not in base:
            continue
        level, wanted = cell.measurement.concurrency, formats.get(_key(cell), NO_FORMATS)
        ours, offs = _greedy(cell, formats), _greedy(base[_key(cell)], formats)
        counts += _Counts.of(*alike_kept(ours, offs, wanted.tools), wanted)
        found = compare_answers(level, offs, ours)
        total += found
        near += found if level <= floor[1] else Comparison()
    judged = near if near.tokens >= ENOUGH_TOKENS else total
    verdict = _verdict(total, judged, floor[0])
    if verdict in {"exact", "within the noise floor"} and counts.is_worse:
        verdict = "differs"
    return ArmLossless(
        arm=own[0].arm,
        found=total,
        valid=counts.valid,
        valid_off=counts.valid_off,
        calls=counts.calls,
        calls_off=counts.calls_off,
        verdict=verdict,
    )


def _first(off: list[MeasuredLevel]) -> dict[CellKey, MeasuredLevel]:
    """The launch of off that others are held against, by cell."""
    return {_key(cell): cell for cell in reversed(off)}


def _calls_once(
    cells: list[MeasuredLevel], off: list[MeasuredLevel], formats: Mapping[CellKey, Formats]
) -> tuple[int, int]:
    """Off's valid calls and calls in all, of answers that some arm's were held against."""
    total = (0, 0)
    for key, cell in _first(off).items():
        wanted, offs = formats.get(key, NO_FORMATS).tools, _greedy(cell, formats)
        others = [one for one in cells if _key(one) == key and not one.arm.config.is_off]
        kept = {one.index for other in others for one in alike_kept(_greedy(other, formats), offs, wanted)[1]}
        total = _sum(total, count_calls([one for one in offs if one.index in kept], wanted))
    return total


def _verdict(total: Comparison, judged: Comparison, floor: Comparison) -> LosslessVerdict:
    if total.tokens < LEAST_TOKENS:
        return "not checked"
    if not total.differing:
        return "exact"
    if not floor.answers:
        return "not checked"
    if not judged.differing:
        return "not checked"  # only levels without a floor of their own differ
    if not floor.differing:
        return "differs"
    ours, offs = judged.agreeing + judged.differing, floor.agreeing + floor.differing
    chance = float(bdtrc(judged.differing - 1, judged.differing + floor.differing, ours / (ours + offs)))
    return "differs" if chance < _CHANCE else "within the noise floor"


def _breaks_formats(own: tuple[int, int], off: tuple[int, int]) -> bool:
    """Whether fewer keep their format than off's, by more than chance."""
    broken, broken_off = own[1] - own[0], off[1] - off[0]
    if not own[1] or not off[1] or broken <= broken_off:
        return False
    return float(bdtrc(broken - 1, broken + broken_off, own[1] / (own[1] + off[1]))) < _CHANCE


def _sum(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    return one[0] + other[0], one[1] + other[1]
