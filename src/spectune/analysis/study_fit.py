"""A study's cells, their noise, and the arms of every level set against each other."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from spectune.analysis.comparison import ALL_PARTS, LevelFit, fit_level
from spectune.analysis.launches import LevelCells, MeasuredLevel, by_level, measured_levels, ramps
from spectune.analysis.noise import Noise, estimate_noise
from spectune.domain.study import StudyHistory
from spectune.domain.workload import Part


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StudyFit:
    """What comparisons need.

    Attributes:
        noise: of the whole study.
        measured: every cell that counts, in order of launch.
        cells: by level, ramps apart.
        levels: the arms of each level of constant load, refined levels included.
        ramps: the arms of each load that goes up and down, by its peak.
    """

    noise: Noise
    measured: tuple[MeasuredLevel, ...]
    cells: Mapping[int, LevelCells]
    levels: Mapping[int, LevelFit]
    ramps: Mapping[int, LevelFit]

    def of_parts(self, parts: Collection[Part]) -> dict[int, LevelFit]:
        """The arms of each level by these parts' prompts alone."""
        return _fits(self.cells, self.noise, parts)


def fit_study(history: StudyHistory) -> StudyFit:
    """The comparisons of everything that counts."""
    return fit_cells(measured_levels(history))


def fit_cells(measured: tuple[MeasuredLevel, ...]) -> StudyFit:
    """The comparisons of these cells, in order of launch."""
    levels, loads = by_level(measured), ramps(measured)
    noise = estimate_noise((*levels.values(), *loads.values()))
    return StudyFit(
        noise=noise,
        measured=measured,
        cells=levels,
        levels=_fits(levels, noise),
        ramps=_fits(loads, noise),
    )


def of_search(history: StudyHistory) -> StudyHistory:
    """The history without what was launched after the search."""
    kept = tuple(outcome for outcome in history.outcomes if outcome.trial.is_of_search)
    return history if len(kept) == len(history.outcomes) else replace(history, outcomes=kept)


def _fits(
    levels: Mapping[int, LevelCells], noise: Noise, parts: Collection[Part] = ALL_PARTS
) -> dict[int, LevelFit]:
    found = {level: fit_level(cells, noise, parts) for level, cells in levels.items()}
    return {level: fit for level, fit in found.items() if fit is not None}
