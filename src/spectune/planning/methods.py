"""A search over several speculation methods: one after the other, off shared. Pure."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from spectune.domain.spec_config import OFF_METHOD
from spectune.domain.study import Study, StudyHistory
from spectune.domain.trial import Trial, TrialId
from spectune.planning.costs import downtime_s, num_launches
from spectune.planning.planner import Planner, Propose, Stop


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodsPlanner:
    """Runs a search for each method of the space; what one learns of off holds for the next.

    Attributes:
        search: makes what chooses settings of one method, given the launches that the other methods took and
            their seconds.
    """

    search: Callable[[int, float], Planner]

    def next(self, study: Study, history: StudyHistory) -> Propose | Stop:
        """The next trial of the first method whose search has not stopped."""
        last = max((outcome.trial.id for outcome in history.outcomes), default=0)
        reasons: list[str] = []
        for single in studies_of(study):
            method = single.space.method
            own = tuple(o for o in history.outcomes if o.trial.config.method in (method, OFF_METHOD))
            others = [o for o in history.outcomes if o not in own]
            search = self.search(num_launches(others), downtime_s(others))
            match search.next(single, replace(history, outcomes=own)):
                case Propose(trial=trial):
                    return Propose(trial=replace(trial, id=TrialId(last + 1)))
                case Stop(reason=reason):
                    reasons.append(f"{method}: {reason}" if study.space.more_methods else reason)
        return Stop(reason="; ".join(reasons))

    def candidates(self, study: Study) -> tuple[Trial, ...]:
        """Every trial of every method, off once."""
        found = {
            trial.config: trial
            for single in studies_of(study)
            for trial in self.search(0, 0.0).candidates(single)
        }
        return tuple(replace(trial, id=TrialId(i)) for i, trial in enumerate(found.values(), 1))


def studies_of(study: Study) -> Iterator[Study]:
    """The study with one method at a time."""
    space = study.space
    for method in (space.method, *space.more_methods):
        yield replace(study, space=replace(space, method=method, more_methods=()))
