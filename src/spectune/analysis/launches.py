"""What was measured, sorted for comparing: arms, their cells, and the cells of each level side by side.

An arm is what a server was told: a setting, perhaps with a lever, or a schedule. A cell is one level that
one launch of an arm measured with one part's prompts. The same arm may have several cells at a level.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from spectune.analysis.prompt_noise import covariance, num_common
from spectune.domain.measurement import LevelMeasurement
from spectune.domain.schedule import Schedule
from spectune.domain.spec_config import OFF, SpecConfig
from spectune.domain.study import StudyHistory
from spectune.domain.trial import Completed, Trial, TrialId
from spectune.domain.workload import Part
from spectune.metrics.summary import LevelSummary, settle_levels, summarise_level
from spectune.perfmodel.arrays import Floats, Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """What a server was told to run.

    Attributes:
        config: the setting; of a schedule, the chain with its most steps.
        lever: flags set beside it, "" for none.
        schedule: steps by batch size; None for a fixed setting.
    """

    config: SpecConfig
    lever: str = ""
    schedule: Schedule | None = None

    @property
    def is_setting(self) -> bool:
        """Whether it is a fixed setting at its own capacity: only those win and are recommended."""
        return not self.lever and self.schedule is None


OFF_ARM = Arm(config=OFF)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredLevel:
    """A cell with its figures, so that they are computed once; it has a tokens/s.

    Attributes:
        trial: the launch it was measured in.
        arm: what ran.
        measurement: the raw facts.
        summary: their figures.
    """

    trial: TrialId
    arm: Arm
    measurement: LevelMeasurement
    summary: LevelSummary

    @property
    def part(self) -> Part:
        """Which prompts were sent."""
        return self.measurement.part


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LevelCells:
    """Every cell of one level.

    Attributes:
        concurrency: the level.
        cells: in order of launch.
        log_speed: log tokens/s. Shape [num_cells].
        covariance: of the log speeds, due to the prompts. Shape [num_cells, num_cells].
        num_common: prompts that both cells answered. Shape [num_cells, num_cells].
    """

    concurrency: int
    cells: tuple[MeasuredLevel, ...]
    log_speed: Floats
    covariance: Floats
    num_common: Ints


def measured_levels(history: StudyHistory) -> tuple[MeasuredLevel, ...]:
    """Cells that count: of completed trials, with a speed, each measured once, in order of launch."""
    return tuple(
        cell
        for outcome in history.outcomes
        if isinstance(outcome, Completed)
        for cell in _cells(outcome)
        if cell.summary.output_tps
    )


def arm_of(trial: Trial) -> Arm:
    """What the trial asked its server to run."""
    return Arm(config=trial.config, lever=trial.lever, schedule=trial.schedule)


def capacities(history: StudyHistory) -> dict[SpecConfig, int]:
    """Most sequences each fixed setting runs at once, where its server said so."""
    return {
        outcome.trial.config: outcome.effective.max_running_requests
        for outcome in history.outcomes
        if isinstance(outcome, Completed)
        and arm_of(outcome.trial).is_setting
        and outcome.effective.max_running_requests is not None
    }


def by_level(cells: Iterable[MeasuredLevel]) -> dict[int, LevelCells]:
    """The cells of each level of constant load, by ascending concurrency."""
    return _grouped(cell for cell in cells if cell.part != "ramp")


def ramps(cells: Iterable[MeasuredLevel]) -> dict[int, LevelCells]:
    """The cells of each load that goes up and down, by its peak."""
    return _grouped(cell for cell in cells if cell.part == "ramp")


def _cells(outcome: Completed) -> Iterable[MeasuredLevel]:
    arm = arm_of(outcome.trial)
    for level in settle_levels(outcome.levels):
        yield MeasuredLevel(
            trial=outcome.trial.id, arm=arm, measurement=level, summary=summarise_level(level)
        )


def _grouped(cells: Iterable[MeasuredLevel]) -> dict[int, LevelCells]:
    found: dict[int, list[MeasuredLevel]] = {}
    for cell in cells:
        found.setdefault(cell.measurement.concurrency, []).append(cell)
    return {level: side_by_side(found[level]) for level in sorted(found)}


def side_by_side(cells: Iterable[MeasuredLevel]) -> LevelCells:
    """Cells of one level with the noise their prompts have in common."""
    ordered = tuple(cells)
    size = len(ordered)
    noise, common = np.zeros((size, size)), np.zeros((size, size), dtype=np.int64)
    for part in {cell.part for cell in ordered}:
        places = [place for place, cell in enumerate(ordered) if cell.part == part]
        levels = [ordered[place].measurement for place in places]
        noise[np.ix_(places, places)] = covariance(levels)
        common[np.ix_(places, places)] = num_common(levels)
    return LevelCells(
        concurrency=ordered[0].measurement.concurrency,
        cells=ordered,
        log_speed=np.log([cell.summary.output_tps or 0.0 for cell in ordered]),
        covariance=noise,
        num_common=common,
    )
