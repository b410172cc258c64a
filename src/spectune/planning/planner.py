"""The seam to search strategies: a history in, the next trial or a reason to stop out. Pure."""

from dataclasses import dataclass
from typing import Protocol

from spectune.domain.study import Study, StudyHistory
from spectune.domain.trial import Trial


@dataclass(frozen=True, slots=True, kw_only=True)
class Propose:
    """Run this trial next."""

    trial: Trial


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Nothing more to run; `reason` is one sentence for the user."""

    reason: str


class Planner(Protocol):
    """Chooses trials. Equal histories give equal answers, so a resumed study goes on as it would have."""

    def next(self, study: Study, history: StudyHistory) -> Propose | Stop:
        """The next trial, or why there is none."""

    def candidates(self, study: Study) -> tuple[Trial, ...]:
        """Every trial it might propose, in the order it would; the plan shown beforehand."""
