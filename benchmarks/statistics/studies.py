"""Studies of known truth, drawn at the level of raw records.

symbol   meaning                                                                unit
s        setting, 0 (off) to 5                                                  1
gap      log loss of a setting against the level's best, uniform up to 15 %     1
launch   normal, one value per launch and one per launch and level              log speed
block    normal, one value per half of a measured level                         log speed
p_i      how hard a prompt is for any setting, normal                           log seconds
p_is     what one setting makes of it beside that, normal                       log seconds
e        what is left of a request (timing), normal                             log seconds

A launch's variance is split half and half between all its levels and each one's own. Prompts keep their
lengths, p_i and p_is in every launch, so pairing works as in a real study; fresh prompts are drawn anew.
What is launched again gets fresh prompts at every level, and one level of the search's as anchor.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from spectune.domain.measurement import LevelMeasurement, RequestRecord
from spectune.domain.spec_config import SpecConfig
from spectune.domain.study import StudyHistory
from spectune.domain.trial import Completed, PlannedCell, Role, Trial, TrialId
from spectune.domain.workload import Part
from spectune.perfmodel.arrays import Floats
from spectune.testing.study_values import make_effective, make_history, make_study

LEVELS = (1, 2, 4, 8, 16)
SETTINGS = tuple(SpecConfig.chain("eagle", k) for k in range(6))
LARGEST_GAP = 0.15


@dataclass(frozen=True, slots=True, kw_only=True)
class Noises:
    """Standard deviations of what is drawn, each of a log."""

    launch: float = 0.015
    block: float = 0.005
    prompt: float = 0.15
    prompt_setting: float = 0.04
    request: float = 0.03
    length: float = 0.5
    num_requests: int = 96


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """What a study should find.

    Attributes:
        losses: share of the level's best speed that a setting loses, by level.
    """

    losses: dict[int, dict[SpecConfig, float]]

    def gap(self, level: int) -> float:
        """Share by which the second best stays below the best."""
        return sorted(self.losses[level].values())[1]


class StudyMaker:
    """Draws one study: its truth, its search, and its confirmation."""

    def __init__(self, seed: int, noises: Noises, levels: tuple[int, ...] = LEVELS) -> None:
        self._levels = levels
        self._rng = np.random.default_rng(seed)
        self._noises = noises
        self._trial = 0
        self._prompts: dict[tuple[int, Part], tuple[Floats, Floats]] = {}
        self._speeds = {level: self._draw_speeds(level) for level in levels}
        best = {level: max(speeds.values()) for level, speeds in self._speeds.items()}
        self.truth = Truth(
            losses={
                level: {config: 1 - speed / best[level] for config, speed in speeds.items()}
                for level, speeds in self._speeds.items()
            }
        )

    def search(self) -> StudyHistory:
        """One launch of every setting, all levels."""
        trials = (
            self._launch(config, "setting", [("search", c) for c in self._levels]) for config in SETTINGS
        )
        return make_history(make_study(concurrency=self._levels), tuple(trials))

    def again(self, finalists: Sequence[SpecConfig]) -> tuple[Completed, ...]:
        """Each launched again: fresh prompts at every level, the search's at one as anchor."""
        cells: list[tuple[Part, int]] = [("search", self._levels[len(self._levels) // 2])]
        cells += [("fresh", level) for level in self._levels]
        return tuple(self._launch(config, "confirm", cells) for config in finalists)

    def _draw_speeds(self, level: int) -> dict[SpecConfig, float]:
        best = 100.0 * level**0.8
        gaps = self._rng.uniform(0, LARGEST_GAP, len(SETTINGS))
        gaps[self._rng.integers(len(SETTINGS))] = 0
        return {config: best * (1 - float(gap)) for config, gap in zip(SETTINGS, gaps, strict=True)}

    def _launch(self, config: SpecConfig, role: Role, cells: list[tuple[Part, int]]) -> Completed:
        self._trial += 1
        whole = self._rng.normal(0, self._noises.launch / math.sqrt(2))
        own = {level: self._rng.normal(0, self._noises.launch / math.sqrt(2)) for _, level in cells}
        planned = tuple(PlannedCell(concurrency=level, part=part) for part, level in cells)
        return Completed(
            trial=Trial(id=TrialId(self._trial), config=config, role=role, cells=planned),
            effective=make_effective(config),
            launch_s=1.0,
            levels=tuple(self._level(config, part, level, whole + own[level]) for part, level in cells),
        )

    def _level(self, config: SpecConfig, part: Part, level: int, launch: float) -> LevelMeasurement:
        tokens, shifts = self._prompt_set(part, level)
        noises, size = self._noises, len(tokens)
        block = np.repeat(self._rng.normal(0, noises.block * math.sqrt(2), 2), (size + 1) // 2)[:size]
        own = shifts[config.num_steps] + self._rng.normal(0, noises.request, size)
        seconds = level * tokens / self._speeds[level][config] * np.exp(own - launch - block)
        records = tuple(_closed_loop(level, tokens, seconds))
        return LevelMeasurement(
            concurrency=level,
            attempt=0,
            records=records,
            counters=None,
            foreign_cpu_share=0.0,
            wall_s=max(record.ended_at_s for record in records),
            started_unix_s=1_790_000_000.0 + 100 * self._trial,
            part=part,
        )

    def _prompt_set(self, part: Part, level: int) -> tuple[Floats, Floats]:
        """Tokens of each prompt [num_requests], and p_i + p_is by setting [num_settings, num_requests]."""
        if (level, part) not in self._prompts:
            size = max(self._noises.num_requests, 8 * level)
            tokens = np.maximum(np.round(60 * np.exp(self._rng.normal(0, self._noises.length, size))), 8)
            own = self._rng.normal(0, self._noises.prompt_setting, (len(SETTINGS), size))
            shifts = self._rng.normal(0, self._noises.prompt, size) + own
            self._prompts[level, part] = tokens, shifts
        return self._prompts[level, part]


def _closed_loop(concurrency: int, tokens: Floats, seconds: Floats) -> Iterator[RequestRecord]:
    free_at_s = [0.0] * concurrency
    for index, (count, duration_s) in enumerate(zip(tokens, seconds, strict=True)):
        slot = min(range(concurrency), key=free_at_s.__getitem__)
        sent_s = free_at_s[slot]
        ended_s = free_at_s[slot] = sent_s + float(duration_s)
        yield RequestRecord(
            index=index,
            due_at_s=sent_s,
            sent_at_s=sent_s,
            chunk_times_s=(sent_s + float(duration_s) / float(count), ended_s),
            chunk_tokens=(),
            ended_at_s=ended_s,
            prompt_tokens=100,
            output_tokens=int(count),
            finish_reason="length",
            output_text="",
        )
