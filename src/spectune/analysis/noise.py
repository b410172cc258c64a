"""How much the study's figures vary: by prompts, within a launch, between launches, and over time.

symbol   meaning                                                                 unit
y        log tokens/s of a cell                                                  1
b²       variance of y by when a level is measured within its launch (block)     1
l²       variance of y by the launch                                             1

Block. The first half of a level's prompts less the second, centred over the cells that sent the same
prompts, has the variance of the prompts plus 2·h²; a whole level averages two halves, so b² = h²/2.

Launch. Cells that repeat arm, level and prompts in another launch differ by prompts, block and launch. What
prompts and block do not explain is l². It is pooled over the study and shrunk to a prior, a scaled inverse
chi-square of 1.5 % with a few degrees of freedom (public tables of repeated launches show about 1.5 %), so
that two launches that happen to agree are not taken for certainty (Gelman et al., *Bayesian Data Analysis*,
3rd ed., section 2.6).

Drift. The same arm, level and prompts, late less early, averaged over arms: what the machine changed by.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from spectune.analysis.launches import Arm, LevelCells, MeasuredLevel
from spectune.analysis.prompt_noise import MIN_COMMON, half_contrasts
from spectune.domain.trial import TrialId
from spectune.perfmodel.arrays import Floats

LAUNCH_SD = 0.015
LAUNCH_DEGREES = 6.0
"""What the prior is worth, in repeated launches."""
_MANY = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """What the machine changed by between the early and the late measurement of the same cells.

    Attributes:
        ratio: late ÷ early tokens/s, geometric mean over the arms.
        ratio_ci: its 95 % interval.
        num_arms: arms that were measured again.
    """

    ratio: float
    ratio_ci: tuple[float, float]
    num_arms: int

    @property
    def is_clear(self) -> bool:
        """Whether the interval leaves out 1."""
        return not self.ratio_ci[0] <= 1.0 <= self.ratio_ci[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """The study's noise, as standard deviations of one cell's log tokens/s.

    Attributes:
        prompt_sd: that of a cell beside others with the same prompts; None where nothing was paired.
        block_sd: by when it was measured within a launch; None where it could not be estimated.
        block_degrees: degrees of freedom of that.
        launch_sd: by the launch, the prior included.
        launch_degrees: degrees of freedom of that, the prior's included.
        num_repeats: degrees of freedom that repeated launches gave.
        drift: None where no cell was measured again.
    """

    prompt_sd: float | None
    block_sd: float | None
    block_degrees: float
    launch_sd: float
    launch_degrees: float
    num_repeats: int
    drift: Drift | None


PRIOR_NOISE = Noise(
    prompt_sd=None, block_sd=None, block_degrees=_MANY, launch_sd=LAUNCH_SD, launch_degrees=LAUNCH_DEGREES,
    num_repeats=0, drift=None,
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class _Repeat:
    """One cell that an arm measured in several launches."""

    trials: frozenset[TrialId]
    excess: float  # sum of squares about the mean that prompts and block do not explain
    is_anchor: bool  # whether it sent the search's prompts
    late_less_early: float
    prompt_variance: float  # of late less early

    @property
    def degrees(self) -> int:
        return len(self.trials) - 1


def estimate_noise(levels: Iterable[LevelCells]) -> Noise:
    """The noise of everything that was measured."""
    groups = [group for level in levels for group in _parts(level)]
    block, degrees = _block_variance(groups)
    repeats = _repeats(groups, block or 0.0)
    pooled = [_pooled(same) for same in repeats]
    squares, count = sum(one for one, _ in pooled), sum(degrees for _, degrees in pooled)
    launch = (LAUNCH_DEGREES * LAUNCH_SD**2 + squares) / (LAUNCH_DEGREES + count)
    return Noise(
        prompt_sd=_prompt_sd(groups),
        block_sd=None if block is None else math.sqrt(block),
        block_degrees=degrees,
        launch_sd=math.sqrt(launch),
        launch_degrees=LAUNCH_DEGREES + count,
        num_repeats=count,
        drift=_drift(repeats, block or 0.0),
    )


def idiosyncratic(covariance: Floats) -> Floats:
    """The variances that are left of cells with common prompts once their common part is gone.

    Args:
        covariance: [num_cells, num_cells] of cells with the same prompts.

    Returns:
        [num_cells], each half the mean variance of its difference to the others; of a single cell its own.
    """
    size = len(covariance)
    variances = np.diag(covariance)
    if size < 2:
        return np.asarray(variances)
    differences = variances[:, None] + variances[None, :] - 2 * covariance
    return np.asarray(differences.sum(axis=1) / (2 * (size - 1)))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Group:
    """Cells of one level that sent the same prompts."""

    cells: tuple[MeasuredLevel, ...]
    log_speed: Floats
    covariance: Floats

    def of(self, places: list[int]) -> "_Group":
        return _Group(
            cells=tuple(self.cells[place] for place in places),
            log_speed=self.log_speed[places],
            covariance=self.covariance[np.ix_(places, places)],
        )


def _parts(level: LevelCells) -> Iterable[_Group]:
    whole = _Group(cells=level.cells, log_speed=level.log_speed, covariance=level.covariance)
    for part in dict.fromkeys(cell.part for cell in level.cells):
        places = [
            place
            for place, cell in enumerate(level.cells)
            if cell.part == part and level.num_common[place, place] >= MIN_COMMON
        ]
        if len(places) > 1:
            yield whole.of(places)


def _prompt_sd(groups: list[_Group]) -> float | None:
    found = [float(value) for group in groups for value in idiosyncratic(group.covariance)]
    return math.sqrt(sum(found) / len(found)) if found else None


def _centring(size: int) -> Floats:
    return np.asarray(np.eye(size) - 1 / size)


def _block_variance(groups: list[_Group]) -> tuple[float | None, float]:
    squares, degrees = 0.0, 0
    for group in groups:
        if group.cells[0].part == "ramp":  # its halves differ by load, and not alike for every arm
            continue
        if (halves := half_contrasts([cell.measurement for cell in group.cells])) is None:
            continue
        contrasts, covariance = halves
        centred = _centring(len(contrasts))
        squares += float(contrasts @ centred @ contrasts) - float(np.trace(centred @ covariance))
        degrees += len(contrasts) - 1
    if not degrees:
        return None, _MANY
    return max(squares / (2 * degrees), 0.0) / 2, float(degrees)


def _repeats(groups: list[_Group], block: float) -> list[list[_Repeat]]:
    """The cells that were measured in several launches, arm by arm."""
    found: dict[Arm, list[_Repeat]] = {}
    for group in groups:
        for arm, places in _places_by_arm(group).items():
            if len({group.cells[place].trial for place in places}) > 1:
                found.setdefault(arm, []).append(_repeat(group.of(places), block))
    return list(found.values())


def _pooled(same: list[_Repeat]) -> tuple[float, int]:
    """Squares and degrees of freedom of an arm's launches: several cells that they share count once."""
    degrees = len(frozenset[TrialId]().union(*(repeat.trials for repeat in same))) - 1
    variance = sum(repeat.excess for repeat in same) / sum(repeat.degrees for repeat in same)
    return variance * degrees, degrees


def _places_by_arm(group: _Group) -> Mapping[Arm, list[int]]:
    places: dict[Arm, list[int]] = {}
    for place, cell in enumerate(group.cells):
        places.setdefault(cell.arm, []).append(place)
    return places


def _repeat(same: _Group, block: float) -> _Repeat:
    size = len(same.cells)
    centred = _centring(size)
    squares = float(same.log_speed @ centred @ same.log_speed)
    explained = float(np.trace(centred @ same.covariance)) + block * (size - 1)
    order = sorted(range(size), key=lambda place: same.cells[place].measurement.started_unix_s)
    first, last = order[0], order[-1]
    covariance = same.covariance
    return _Repeat(
        trials=frozenset(cell.trial for cell in same.cells),
        excess=max(squares - explained, 0.0),
        is_anchor=same.cells[0].part == "search",
        late_less_early=float(same.log_speed[last] - same.log_speed[first]),
        prompt_variance=float(
            covariance[first, first] + covariance[last, last] - 2 * covariance[first, last]
        ),
    )


def _drift(arms: list[list[_Repeat]], block: float) -> Drift | None:
    """The mean of late less early; its own noise is what the arms do not share."""
    anchors = [[repeat for repeat in same if repeat.is_anchor] for same in arms]
    anchors = [same for same in anchors if same]
    if not anchors:
        return None
    count = len(anchors)
    changes = np.array([sum(r.late_less_early for r in same) / len(same) for same in anchors])
    prompts = sum(sum(r.prompt_variance for r in same) / len(same) ** 2 for same in anchors)
    mean = float(changes.mean())
    explained = (prompts / 2 + count * block) * (count - 1) / count
    apart = max(float(np.sum((changes - mean) ** 2)) / 2 - explained, 0.0)
    degrees = LAUNCH_DEGREES + count - 1
    launch = (LAUNCH_DEGREES * LAUNCH_SD**2 + apart) / degrees
    half = float(stdtrit(degrees, 0.975)) * math.sqrt(2 * (launch + block) / count + prompts / count**2)
    return Drift(
        ratio=math.exp(mean), ratio_ci=(math.exp(mean - half), math.exp(mean + half)), num_arms=count
    )
