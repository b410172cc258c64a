"""Which of two arms is faster at one level, and whether that is certain: every launch at once.

symbol   meaning                                                                     shape
y        log tokens/s of the level's cells                                           [num_cells]
X        1 where a cell is of an arm, and 1 where it sent a part's prompts (the      [num_cells, num_arms
         first part is the measure)                                                  + num_parts − 1]
L        1 where two cells are of the same launch                                    [num_cells, num_cells]
P        covariance of y due to the prompts (analysis/prompt_noise)                  [num_cells, num_cells]
w        weights of a difference: θ_a − θ_b = w·y                                    [num_cells]

An arm's log speed θ is fitted by generalised least squares, y = X·(θ, parts) + noise; a part's prompts count
alike for every arm, so only cells with the same prompts are set against each other. The weights come from
launch, block and mean prompt noise; the variance of a difference from the full covariance,

    V = l²·w'Lw + b²·w'w + w'Pw,

and its degrees of freedom from those of the three (Satterthwaite 1946): V² ÷ Σ V_k²/degrees_k. With one
launch of each arm w is (1, −1) and this is the paired difference.

A level that other processes disturbed is a lower bound: had it had their share of a core, it could have run
up to 1/(1 − share) faster. The interval is widened by that much on the side it would move to.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from spectune.analysis.launches import Arm, LevelCells, MeasuredLevel, side_by_side
from spectune.analysis.noise import Noise, idiosyncratic
from spectune.analysis.prompt_noise import MIN_COMMON
from spectune.domain.spec_config import SpecConfig
from spectune.domain.workload import Part
from spectune.metrics.summary import LevelSummary
from spectune.perfmodel.arrays import Floats

CI_LEVEL = 0.95
TIE_SHARE = 0.01
"""Settings closer than this are a tie, and the one with fewer steps is taken."""
ALL_PARTS: tuple[Part, ...] = ("search", "fresh", "ramp")
_LARGEST_SHARE = 0.95  # of one core; beyond it nothing is known of the level, and the interval says so
_NOTHING = 1e-6  # weights below it are rounding


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedDifference:
    """How much faster one arm is than another at one level.

    Attributes:
        ratio: tokens/s of the first ÷ tokens/s of the second.
        ratio_ci: its 95 % interval; None where there is too little to tell.
    """

    ratio: float
    ratio_ci: tuple[float, float] | None

    @property
    def is_decided(self) -> bool:
        """Whether the interval leaves out a tie."""
        return self.ratio_ci is not None and not self.ratio_ci[0] <= 1.0 <= self.ratio_ci[1]

    @property
    def is_ahead(self) -> bool:
        """Whether the first is certainly faster."""
        return self.ratio_ci is not None and self.ratio_ci[0] > 1.0

    @property
    def is_behind(self) -> bool:
        """Whether the first is certainly slower."""
        return self.ratio_ci is not None and self.ratio_ci[1] < 1.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LevelFit:
    """The arms of one level, set against each other.

    Attributes:
        level: the cells.
        arms: in order of their first cell.
        weights: log speed of each arm on the first part's prompts. Shape [num_arms, num_cells].
        noise: the study's.
    """

    level: LevelCells
    arms: tuple[Arm, ...]
    weights: Floats
    noise: Noise

    @property
    def concurrency(self) -> int:
        """The level."""
        return self.level.concurrency

    @property
    def settings(self) -> tuple[SpecConfig, ...]:
        """The fixed settings among the arms."""
        return tuple(arm.config for arm in self.arms if arm.is_setting)

    def has(self, arm: Arm) -> bool:
        """Whether the arm was measured here."""
        return arm in self.arms

    def tps(self, arm: Arm) -> float:
        """The arm's tokens/s over all its launches, on the prompts of the search where it sent them."""
        return math.exp(float(self._weights_of(arm) @ self.level.log_speed))

    def summary(self, arm: Arm) -> LevelSummary:
        """The figures of the arm's first cell."""
        return self.cells_of(arm)[0].summary

    def cells_of(self, arm: Arm) -> tuple[MeasuredLevel, ...]:
        """The arm's cells, in order of launch."""
        return tuple(cell for cell in self.level.cells if cell.arm == arm)

    def difference(self, first: Arm, second: Arm, *, contenders: int = 1) -> SpeedDifference:
        """The speed of `first` relative to `second`.

        Args:
            first: an arm of this level.
            second: another.
            contenders: arms that `first` was chosen from; the interval holds for all of them at once.
        """
        weights = self._weights_of(first) - self._weights_of(second)
        if not self._is_paired(weights):
            return SpeedDifference(ratio=math.exp(float(weights @ self.level.log_speed)), ratio_ci=None)
        return self._difference(weights, contenders)

    def between_parts(self, arm: Arm, first: Part, second: Part) -> SpeedDifference | None:
        """The arm's speed on one part's prompts relative to another's; None where it lacks one.

        The prompts differ, so nothing of their noise cancels.
        """
        weights = self._mean_of(arm, first) - self._mean_of(arm, second)
        if weights.max(initial=0) <= 0 or weights.min(initial=0) >= 0:
            return None
        used = np.abs(weights) > _NOTHING
        if int(self.level.num_common.diagonal()[used].min()) < MIN_COMMON:
            return SpeedDifference(ratio=math.exp(float(weights @ self.level.log_speed)), ratio_ci=None)
        return self._difference(weights)

    def _difference(self, weights: Floats, contenders: int = 1) -> SpeedDifference:
        """The difference that weighs the cells so. Shape [num_cells]."""
        log_ratio = float(weights @ self.level.log_speed)
        variance, degrees = self._variance(weights)
        half = quantile(degrees, contenders) * math.sqrt(variance)
        gains = weights * np.array([_headroom(cell.summary) for cell in self.level.cells])
        low = log_ratio - half + float(np.minimum(gains, 0).sum())
        high = log_ratio + half + float(np.maximum(gains, 0).sum())
        return SpeedDifference(ratio=math.exp(log_ratio), ratio_ci=(math.exp(low), math.exp(high)))

    def _mean_of(self, arm: Arm, part: Part) -> Floats:
        """Weights of the mean log speed of an arm's cells of one part; zeros where it has none."""
        is_own = np.array([cell.arm == arm and cell.part == part for cell in self.level.cells], dtype=float)
        return np.asarray(is_own / max(is_own.sum(), 1.0))

    def _weights_of(self, arm: Arm) -> Floats:
        return np.asarray(self.weights[self.arms.index(arm)])

    def _is_paired(self, weights: Floats) -> bool:
        used = np.flatnonzero(np.abs(weights) > _NOTHING)
        parts = [[p for p in used if self.level.cells[p].part == part] for part in _parts(self.level.cells)]
        return bool(len(used)) and all(
            len(places) != 1 and int(self.level.num_common[np.ix_(places, places)].min()) >= MIN_COMMON
            for places in parts
            if places
        )

    def _variance(self, weights: Floats) -> tuple[float, float]:
        """Variance of the difference and its degrees of freedom."""
        prompts = max(float(weights @ self.level.covariance @ weights), 0.0)  # rounding
        launches = self.noise.launch_sd**2 * float(weights @ _same_launch(self.level.cells) @ weights)
        block = (self.noise.block_sd or 0.0) ** 2 * float(weights @ weights)
        used = np.flatnonzero(np.abs(weights) > _NOTHING)
        fewest = int(self.level.num_common[used, used].min()) - 1
        parts = (
            (prompts, float(fewest)),
            (launches, self.noise.launch_degrees),
            (block, self.noise.block_degrees),
        )
        total = sum(part for part, _ in parts)
        spread = sum(part**2 / degrees for part, degrees in parts)
        return total, total**2 / spread if spread > 0 else float(fewest)


def fit_level(level: LevelCells, noise: Noise, parts: Collection[Part] = ALL_PARTS) -> LevelFit | None:
    """The arms of the level by all cells of these parts that can be set against each other.

    None where no cell is of these parts. Cells that no chain of common prompts joins to the most of the
    others are left out.
    """
    joined = _joined([place for place, cell in enumerate(level.cells) if cell.part in parts], level)
    if not joined:
        return None
    kept = level if len(joined) == len(level.cells) else side_by_side(level.cells[place] for place in joined)
    arms = tuple(dict.fromkeys(cell.arm for cell in kept.cells))
    return LevelFit(level=kept, arms=arms, weights=_weights(kept, arms, noise), noise=noise)


def mean_difference(
    fits: Sequence[LevelFit], shares: Sequence[float], first: Arm, second: Arm
) -> SpeedDifference | None:
    """The speed of `first` relative to `second`, the weighted geometric mean over levels.

    A launch's effect is taken as common to its levels: the interval is none too narrow.

    Args:
        fits: levels; both arms are at each, or there is no mean.
        shares: weight of each level, together 1.
        first: an arm.
        second: another.
    """
    if not fits or not all(fit.has(first) and fit.has(second) for fit in fits):
        return None
    found = [fit.difference(first, second) for fit in fits]
    log_ratio = sum(share * math.log(one.ratio) for share, one in zip(shares, found, strict=True))
    ends = [one.ratio_ci for one in found if one.ratio_ci is not None]
    if len(ends) < len(found):
        return SpeedDifference(ratio=math.exp(log_ratio), ratio_ci=None)
    low = sum(share * math.log(end[0]) for share, end in zip(shares, ends, strict=True))
    high = sum(share * math.log(end[1]) for share, end in zip(shares, ends, strict=True))
    return SpeedDifference(ratio=math.exp(log_ratio), ratio_ci=(math.exp(low), math.exp(high)))


def quantile(degrees: float, contenders: int = 1) -> float:
    """Student's t for a 95 % interval that holds for a winner picked from among contenders.

    A wrong winner is one of `contenders` that comes out ahead of the true one, an event on one side: each
    may happen in 5 % ÷ contenders of studies (Bonferroni). Up to two, that is the usual two-sided interval.

    >>> round(quantile(10), 3), round(quantile(1e6), 3), round(quantile(10, contenders=4), 3)
    (2.228, 1.96, 2.634)
    """
    return float(stdtrit(degrees, 1 - (1 - CI_LEVEL) / max(contenders, 2)))


def _headroom(summary: LevelSummary) -> float:
    """How much faster a disturbed level could have run, as a log ratio; 0 for an undisturbed one."""
    if not summary.disturbed:
        return 0.0
    return -math.log(1 - min(summary.foreign_cpu_share or 0.0, _LARGEST_SHARE))


def _parts(cells: Collection[MeasuredLevel]) -> tuple[Part, ...]:
    """The parts the cells sent, the search's first: the measure of a level's speeds."""
    found = dict.fromkeys(cell.part for cell in cells)
    return tuple(sorted(found, key=lambda part: part != "search"))


def _same_launch(cells: tuple[MeasuredLevel, ...]) -> Floats:
    trials = np.array([cell.trial for cell in cells])
    return np.asarray((trials[:, None] == trials[None, :]).astype(np.float64))


def _joined(places: list[int], level: LevelCells) -> list[int]:
    """The places of the largest set of cells joined by arms and parts in common, ascending."""
    groups: list[list[int]] = []
    for place in places:
        near = [group for group in groups if any(_meet(level.cells[place], level.cells[p]) for p in group)]
        apart = [group for group in groups if group not in near]
        groups = [*apart, [*(p for group in near for p in group), place]]
    size = max((len(group) for group in groups), default=0)
    return sorted(next((group for group in groups if len(group) == size), []))


def _meet(one: MeasuredLevel, other: MeasuredLevel) -> bool:
    return one.part == other.part or one.arm == other.arm


def _weights(level: LevelCells, arms: tuple[Arm, ...], noise: Noise) -> Floats:
    """Weights of each arm's log speed. Shape [num_arms, num_cells]."""
    parts = _parts(level.cells)
    design = np.array(
        [
            [*(cell.arm == arm for arm in arms), *(cell.part == part for part in parts[1:])]
            for cell in level.cells
        ],
        dtype=np.float64,
    )  # [num_cells, num_arms + num_parts − 1]
    diagonal = _prompt_variances(level, parts) + (noise.block_sd or 0.0) ** 2 + 1e-12
    working = noise.launch_sd**2 * _same_launch(level.cells) + np.diag(diagonal)
    weighed = np.linalg.solve(working, design)  # [num_cells, num_columns]
    return np.asarray(np.linalg.solve(design.T @ weighed, weighed.T)[: len(arms)])


def _prompt_variances(level: LevelCells, parts: tuple[Part, ...]) -> Floats:
    """A cell's prompt noise beside its part's others, the mean over the part. Shape [num_cells]."""
    found = np.zeros(len(level.cells))
    for part in parts:
        places = [place for place, cell in enumerate(level.cells) if cell.part == part]
        found[places] = idiosyncratic(level.covariance[np.ix_(places, places)]).mean()
    return found
