"""After the search: finalists again on fresh prompts, off at equal limits, the schedule. Pure.

A search ends with the setting that came out best of several, on one launch each and one list of prompts: it
is partly the luckiest. Before it is recommended it is therefore launched again, with its rivals, on prompts
that no search has seen. The rounds alternate in order (A B, then B A), so that a drift of the machine does
not favour one of them. Each round measures

- every level with fresh prompts, and levels within the changes of the best setting that are still wide, where
  the launched setting meets another or may be close to the best,
- one anchor: a level with the search's own prompts, which tells drift and what a launch varies by,
- where a schedule will be measured, the load that goes up and down.

What is wide after that is measured by launches of its own, a few levels at a time, until it is narrow, the
budget ends or they are too many. They and off at equal limits leave the schedule its launches, and are left
out where they do not fit: what else is wanted is still tried.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from statistics import fmean

from spectune.domain.shortlist import Shortlist
from spectune.domain.spec_config import OFF, SpecConfig
from spectune.domain.study import NOT_LAUNCHED_AGAIN, NOT_LAUNCHED_BETWEEN, ProofRule, Study, StudyHistory
from spectune.domain.trial import Completed, PlannedCell, Role, Trial, TrialId, TrialOutcome
from spectune.planning.costs import downtime_s, num_launches
from spectune.planning.planner import Planner, Propose, Stop
from spectune.planning.stopping import Budget

FINALISTS_OF_ONE_ROUND, MOST_FINALISTS = 3, 4
_EXTRA: frozenset[Role] = frozenset({"baseline", "refine"})  # off at equal limits, levels in between
_PLACEHOLDER = TrialId(1)  # until the trial is proposed


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedPlanner:
    """A search, then what proves its answer.

    Attributes:
        search: chooses settings; sees the search's own trials only.
        look: the finalists as far as a history tells them.
        limit_flags: the engine's flags for so many running requests, as a lever; "" where it has none.
        budget: limits of the whole study; `min_launches` counts the finalists' and the schedule's launches.
    """

    search: Planner
    look: Callable[[StudyHistory], Shortlist]
    limit_flags: Callable[[int], str]
    budget: Budget = field(default_factory=Budget)

    def next(self, study: Study, history: StudyHistory) -> Propose | Stop:
        """The next trial, or why there is none."""
        searched = tuple(o for o in history.outcomes if o.trial.is_of_search)
        found = self.search.next(study, replace(history, outcomes=searched))
        if isinstance(found, Propose):
            return found
        if study.proof.launched_rounds == 0 and not study.proof.has_equal_limits:
            return found
        shortlisted = self.look(history)
        schedules = _missing_schedules(study, history.outcomes, shortlisted)
        left_out: dict[Role, str] = {}
        for wanted in chain(self._missing(study, history, shortlisted), schedules):
            shortage = self._shortage(wanted, history, schedules if wanted.role in _EXTRA else [])
            if not shortage:
                return Propose(trial=replace(wanted, id=_next_id(history)))
            left_out.setdefault(wanted.role, f"{_left_out(wanted)}: {shortage}")
            if wanted.role not in _EXTRA:
                break
        return Stop(reason="; ".join([found.reason, *left_out.values()]))

    def candidates(self, study: Study) -> tuple[Trial, ...]:
        """Every trial the search might propose."""
        return self.search.candidates(study)

    def _missing(self, study: Study, history: StudyHistory, found: Shortlist) -> Iterator[Trial]:
        """What is still to be launched, most important first, schedules aside."""
        finalists = finalists_of(found, study.proof)
        wanted: list[Trial] = []
        for number in range(study.proof.launched_rounds):
            order = finalists if number % 2 == 0 else finalists[::-1]
            wanted += [_confirm(study, config, found) for config in order]
        wanted += self._equal_limits(study, history, found)
        yield from _not_launched(wanted, history.outcomes)
        yield from _refining(study, history.outcomes, found)

    def _equal_limits(self, study: Study, history: StudyHistory, found: Shortlist) -> list[Trial]:
        """Off at the running requests that the recommended setting leaves, where some level asks for more."""
        speculating = found.recommended
        if not study.proof.has_equal_limits or speculating is None or speculating.is_off:
            return []
        limit, own = (_capacity(history.outcomes, config) for config in (speculating, OFF))
        if limit is None or own is None or limit >= own or study.concurrency[-1] <= limit:
            return []
        lever = self.limit_flags(limit)
        return [_trial(OFF, "baseline", (), lever=lever)] if lever else []

    def _shortage(self, trial: Trial, history: StudyHistory, later: Sequence[Trial]) -> str:
        """Which limit the trial would break, with what is kept for later ones; or ""."""
        if history.launches >= self.budget.max_launches:
            return f"{history.launches} launches were allowed and made"
        if history.launches + len(later) >= self.budget.max_launches:
            return f"the schedule needs what is left of the {self.budget.max_launches:.0f} launches allowed"
        proving = [outcome for outcome in history.outcomes if not outcome.trial.is_of_search]
        if trial.role not in _EXTRA:
            proving = [outcome for outcome in proving if outcome.trial.role not in _EXTRA]
        if num_launches(proving) + len(later) < self.budget.min_launches:
            return ""
        spent_s = downtime_s(history.outcomes)
        cost_s, later_s = _expected_s(trial, history), sum(_expected_s(one, history) for one in later)
        if spent_s + cost_s + later_s <= self.budget.max_downtime_s:
            return ""
        kept = f" and {later_s:.0f} s for the schedule" if later else ""
        return (
            f"about {cost_s:.0f} s{kept} would go beyond the {self.budget.max_downtime_s:.0f} s allowed, "
            f"{spent_s:.0f} s are spent"
        )


def _left_out(trial: Trial) -> str:
    if trial.role == "confirm":
        return f"{trial.label} {NOT_LAUNCHED_AGAIN}"
    if trial.role != "refine":
        return f"{trial.label} was not launched"
    levels = " and ".join(str(cell.concurrency) for cell in trial.cells)
    return f"{trial.label} {NOT_LAUNCHED_BETWEEN} ({levels})"


def finalists_of(found: Shortlist, proof: ProofRule) -> tuple[SpecConfig, ...]:
    """The recommended setting first, then rivals: two in a single round, one more in several.

    A rival is off or the best of some level, so none of them is clearly out.
    """
    if found.recommended is None:
        return ()
    most = FINALISTS_OF_ONE_ROUND if proof.launched_rounds <= 1 else MOST_FINALISTS
    return (found.recommended, *found.rivals)[:most]


def _confirm(study: Study, config: SpecConfig, found: Shortlist) -> Trial:
    between = set(_useful_levels(study, config, found)[: study.proof.refine])
    has_ramp = study.proof.has_schedule and found.schedule is not None
    anchor = study.concurrency[len(study.concurrency) // 2]
    cells = (PlannedCell(concurrency=anchor), *_fresh(study, between))
    return _trial(config, "confirm", (*cells, *_ramp(study)) if has_ramp else cells)


def _useful_levels(study: Study, config: SpecConfig, found: Shortlist) -> list[int]:
    """Levels within wide changes at which the setting is to be measured, most worth first."""
    wanted = (level for gap in found.gaps for level in gap.levels if config in level.useful)
    return list(dict.fromkeys(one.concurrency for one in wanted if one.concurrency not in study.concurrency))


def _refining(study: Study, outcomes: Sequence[TrialOutcome], found: Shortlist) -> Iterator[Trial]:
    """Launches for nothing but levels within wide changes, most worth first.

    A level that needs a setting whose launch for such levels failed is left out: it could tell nothing.
    """
    made = [outcome for outcome in outcomes if outcome.trial.role == "refine"]
    failed = {outcome.trial.config for outcome in made if not isinstance(outcome, Completed)}
    if len(made) >= study.proof.most_refining:
        return
    for wanted in (level for gap in found.gaps for level in gap.levels if not failed & level.needed):
        for config in sorted(wanted.needed, key=_order):
            levels = dict.fromkeys([wanted.concurrency, *_useful_levels(study, config, found)])
            cells = _fresh_cells(list(levels)[: study.proof.refine])
            yield _trial(config, "refine", cells)


def _order(config: SpecConfig) -> tuple[int, int, str]:
    return config.num_steps, config.num_draft_tokens, config.method


def _missing_schedules(study: Study, outcomes: Sequence[TrialOutcome], found: Shortlist) -> list[Trial]:
    if not study.proof.has_schedule or found.recommended is None:
        return []
    return list(_not_launched(_schedules(study, found), outcomes))


def _schedules(study: Study, found: Shortlist) -> list[Trial]:
    """The schedule, once a round; none where there is nothing to schedule."""
    if found.schedule is None or found.schedule_config is None:
        return []
    trial = _trial(found.schedule_config, "schedule", (*_fresh(study, set()), *_ramp(study)))
    return [replace(trial, schedule=found.schedule)] * study.proof.launched_rounds


def _fresh(study: Study, between: set[int]) -> tuple[PlannedCell, ...]:
    return (*_fresh_cells(study.concurrency), *_fresh_cells(between.difference(study.concurrency)))


def _fresh_cells(levels: Iterable[int]) -> tuple[PlannedCell, ...]:
    return tuple(PlannedCell(concurrency=level, part="fresh") for level in sorted(levels))


def _ramp(study: Study) -> tuple[PlannedCell, ...]:
    return (PlannedCell(concurrency=study.concurrency[-1], part="ramp"),)


def _trial(config: SpecConfig, role: Role, cells: tuple[PlannedCell, ...], lever: str = "") -> Trial:
    return Trial(id=_PLACEHOLDER, config=config, role=role, cells=cells, lever=lever)


def _not_launched(wanted: Sequence[Trial], outcomes: Sequence[TrialOutcome]) -> Iterator[Trial]:
    """Trials that are wanted more often than they were launched."""
    launched = Counter(_key(outcome.trial) for outcome in outcomes)
    seen: Counter[tuple[SpecConfig, Role, str]] = Counter()
    for trial in wanted:
        seen[_key(trial)] += 1
        if seen[_key(trial)] > launched[_key(trial)]:
            yield trial


def _key(trial: Trial) -> tuple[SpecConfig, Role, str]:
    """A schedule that was narrowed since it was launched is not launched again."""
    return (OFF if trial.schedule is not None else trial.config), trial.role, trial.lever


def _capacity(outcomes: Sequence[TrialOutcome], config: SpecConfig) -> int | None:
    """Running requests that the setting's own server allows."""
    for outcome in outcomes:
        if isinstance(outcome, Completed) and outcome.trial.is_of_search and outcome.trial.config == config:
            return outcome.effective.max_running_requests
    return None


def _next_id(history: StudyHistory) -> TrialId:
    return TrialId(max((outcome.trial.id for outcome in history.outcomes), default=0) + 1)


def _expected_s(trial: Trial, history: StudyHistory) -> float:
    """Seconds a trial will take: a mean launch, and a mean level for each of its cells."""
    done = [outcome for outcome in history.outcomes if isinstance(outcome, Completed)]
    walls = [level.wall_s for outcome in done for level in outcome.levels]
    cells = len(trial.cells) or len(history.study.concurrency)
    return fmean(outcome.launch_s for outcome in done) + cells * fmean(walls) if walls else 0.0
