"""Protocol of the study store: append raw facts, read them back as a history."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from spectune.domain.measurement import LevelMeasurement
from spectune.domain.study import Study, StudyHistory
from spectune.domain.trial import EffectiveSettings, Trial, TrialOutcome
from spectune.domain.workload import LoadPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class StudySummary:
    """One line of the list of studies.

    Attributes:
        study: the question.
        num_trials: trials with an outcome.
        finished: why it ended, or "" while it runs or after an interruption.
        is_open: whether a process is working on it now.
    """

    study: Study
    num_trials: int
    finished: str
    is_open: bool


class StudyWriter(Protocol):
    """Appends facts to one study; each call is durable when it returns."""

    def add_plans(self, plans: tuple[LoadPlan, ...]) -> None:
        """The load plans of all levels, decided once per study."""

    def add_launch(self, trial: Trial) -> None:
        """A server is about to be started for `trial`; later facts of the trial belong to this launch."""

    def add_ready(self, trial: Trial, effective: EffectiveSettings, launch_s: float) -> None:
        """The launched server gave a real generation."""

    def add_level(self, trial: Trial, level: LevelMeasurement) -> None:
        """A level was measured."""

    def add_outcome(self, outcome: TrialOutcome) -> None:
        """The trial ended; levels of it that were not appended before are appended too."""

    def finish(self, reason: str) -> None:
        """The planner stopped."""


class TrialStore(Protocol):
    """Studies and everything raw about them."""

    def studies(self) -> tuple[StudySummary, ...]:
        """All studies, oldest first."""

    def history(self, study_id: str) -> StudyHistory:
        """Everything known of a study.

        Raises:
            StoreError: no such study, or the store cannot be read.
        """

    def writing(self, study: Study) -> AbstractContextManager[StudyWriter]:
        """A sitting on `study`, begun if the store has none of that id; one process at a time.

        Raises:
            StoreError: another process works on it, or the store cannot be written.
        """
