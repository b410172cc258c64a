from dataclasses import dataclass, field, replace

import pytest

from spectune.domain.schedule import Schedule
from spectune.domain.shortlist import Gap, Shortlist, WantedLevel
from spectune.domain.spec_config import OFF, SpecConfig
from spectune.domain.study import ProofRule, Study, StudyHistory
from spectune.domain.trial import Completed, Failed, PlannedCell, Trial, TrialOutcome
from spectune.planning.grid import GridPlanner
from spectune.planning.planner import Propose, Stop
from spectune.planning.staged import StagedPlanner, finalists_of
from spectune.planning.stopping import Budget
from spectune.testing.study_values import make_effective, make_history, make_level, make_study


def wanted(level: int, *needed: SpecConfig) -> WantedLevel:
    return WantedLevel(concurrency=level, needed=frozenset(needed), useful=frozenset(needed))


EAGLE_1, EAGLE_2, EAGLE_3 = (SpecConfig.chain("eagle", steps) for steps in (1, 2, 3))
SCHEDULE = Schedule.of((1, 8, 2), (9, None, 0))
FOUND = Shortlist(
    recommended=EAGLE_2,
    rivals=(OFF, EAGLE_1),
    gaps=(
        Gap(
            first=EAGLE_2,
            second=OFF,
            low=4,
            high=16,
            levels=tuple(wanted(level, EAGLE_2, OFF) for level in (8, 9, 6)),
        ),
    ),
    schedule=SCHEDULE,
    schedule_config=EAGLE_2,
)
FULL = ProofRule(rounds=2, refine=1, has_schedule=True, has_equal_limits=True)


@dataclass(frozen=True)
class Engine:
    """Answers every trial at once; a level takes 10 s, a launch 5 s."""

    found: Shortlist = FOUND
    budget: Budget = field(default_factory=Budget)
    capacities: tuple[tuple[SpecConfig, int], ...] = ((OFF, 48), (EAGLE_2, 12))
    failing: frozenset[SpecConfig] = frozenset()
    narrow_after: int = 0  # launches after the search until no change is wide

    def run(self, proof: ProofRule) -> tuple[list[Trial], str]:
        study = replace(make_study(concurrency=(1, 4, 16), num_steps=(0, 1, 2)), proof=proof)
        planner = StagedPlanner(
            search=GridPlanner(),
            look=self._looked,
            limit_flags=lambda limit: f"--max-running-requests {limit}",
            budget=self.budget,
        )
        outcomes: tuple[TrialOutcome, ...] = ()
        while True:
            history = make_history(study, outcomes, finished="")
            assert planner.next(study, history) == planner.next(study, history)
            match planner.next(study, history):
                case Stop(reason=reason):
                    return [outcome.trial for outcome in outcomes], reason
                case Propose(trial=trial):
                    outcomes = (*outcomes, self._answer(study, trial))

    def _looked(self, history: StudyHistory) -> Shortlist:
        assert history.outcomes, "the finalists are asked for after the search"
        later = [outcome for outcome in history.outcomes if not outcome.trial.is_of_search]
        if len(later) >= max(self.narrow_after, 3):
            return replace(self.found, gaps=())
        return replace(self.found, gaps=tuple(self._left(gap, later) for gap in self.found.gaps))

    def _left(self, gap: Gap, later: list[TrialOutcome]) -> Gap:
        """The gap without what was measured in it."""

        def missing(level: WantedLevel, configs: frozenset[SpecConfig]) -> frozenset[SpecConfig]:
            cell = PlannedCell(concurrency=level.concurrency, part="fresh")
            done = (o.trial for o in later if isinstance(o, Completed))
            return configs - {trial.config for trial in done if cell in trial.cells}

        levels = (
            replace(one, needed=missing(one, one.needed), useful=missing(one, one.useful))
            for one in gap.levels
        )
        return replace(gap, levels=tuple(level for level in levels if level.needed))

    def _answer(self, study: Study, trial: Trial) -> TrialOutcome:
        if trial.config in self.failing and trial.role in ("confirm", "refine"):
            return Failed(
                trial=trial,
                kind="hang",
                detail="it hung.",
                log_tail="",
                effective=None,
                launch_s=5.0,
                levels=(),
            )
        cells = trial.cells or tuple(PlannedCell(concurrency=level) for level in study.concurrency)
        capacity = dict(self.capacities).get(trial.config, 40)
        return Completed(
            trial=trial,
            effective=replace(make_effective(trial.config), max_running_requests=capacity),
            launch_s=5.0,
            levels=tuple(
                replace(make_level(cell.concurrency, 100.0), part=cell.part, wall_s=10.0) for cell in cells
            ),
        )


def named(trials: list[Trial]) -> list[str]:
    return [f"{trial.role} {trial.label}" for trial in trials if not trial.is_of_search]


def test_without_proof_the_search_stands_alone() -> None:
    trials, reason = Engine().run(ProofRule())
    assert all(trial.is_of_search for trial in trials)
    assert reason


def test_one_round_launches_the_recommended_setting_and_two_rivals_again() -> None:
    trials, _ = Engine().run(ProofRule(rounds=1))
    assert named(trials) == ["confirm eagle 2", "confirm off", "confirm eagle 1"]
    assert [trial.id for trial in trials] == [1, 2, 3, 4, 5, 6]
    anchor, *fresh = trials[-1].cells
    assert anchor == PlannedCell(concurrency=4)
    assert fresh == [PlannedCell(concurrency=level, part="fresh") for level in (1, 4, 16)]


def test_a_second_round_goes_the_other_way() -> None:
    trials, _ = Engine().run(ProofRule(rounds=2))
    assert named(trials) == [
        "confirm eagle 2", "confirm off", "confirm eagle 1",
        "confirm eagle 1", "confirm off", "confirm eagle 2",
    ]  # fmt: skip


def test_a_crossover_is_refined_by_the_two_settings_that_meet_there() -> None:
    trials, _ = Engine().run(ProofRule(rounds=1, refine=1))
    levels = {
        trial.label: {cell.concurrency for cell in trial.cells if cell.part == "fresh"}
        for trial in trials
        if trial.role == "confirm"
    }
    assert levels == {"eagle 2": {1, 4, 8, 16}, "off": {1, 4, 8, 16}, "eagle 1": {1, 4, 16}}


def test_a_setting_that_may_be_close_is_measured_there_too_when_it_is_up_anyway() -> None:
    level = replace(wanted(8, EAGLE_2, OFF), useful=frozenset({EAGLE_1, EAGLE_2, OFF}))
    near = replace(FOUND, rivals=(EAGLE_1, OFF), gaps=(replace(FOUND.gaps[0], levels=(level,)),))
    trials, _ = Engine(found=near).run(ProofRule(rounds=1, refine=1))
    assert named(trials) == ["confirm eagle 2", "confirm eagle 1", "confirm off"]
    confirmed = [trial for trial in trials if trial.role == "confirm"]
    assert all(PlannedCell(concurrency=8, part="fresh") in trial.cells for trial in confirmed)


def test_a_launch_has_so_many_levels_in_between_over_all_changes() -> None:
    gaps = (
        replace(FOUND.gaps[0], levels=(wanted(8, EAGLE_2, OFF),)),
        replace(FOUND.gaps[0], low=1, high=4, levels=(wanted(2, EAGLE_1, OFF), wanted(3, EAGLE_1, OFF))),
    )
    trials, _ = Engine(found=replace(FOUND, gaps=gaps)).run(ProofRule(rounds=1, refine=2))
    levels = {
        trial.label: [cell.concurrency for cell in trial.cells if cell.concurrency not in (1, 4, 16)]
        for trial in trials
        if trial.role == "confirm"
    }
    assert levels == {"eagle 2": [8], "off": [2, 8], "eagle 1": [2, 3]}


def test_what_stays_wide_is_launched_for_until_it_is_narrow() -> None:
    trials, _ = Engine(narrow_after=99).run(ProofRule(rounds=1, refine=2))
    assert named(trials)[3:] == ["refine off", "refine eagle 2"]  # until none of the gap's levels is left
    assert all(trial.cells == (PlannedCell(concurrency=6, part="fresh"),) for trial in trials[-2:])
    trials, _ = Engine(narrow_after=4).run(ProofRule(rounds=1, refine=2))
    assert named(trials)[3:] == ["refine off"]


def test_launches_for_levels_in_between_end_with_the_budget_or_their_number() -> None:
    proof = ProofRule(rounds=1, refine=1)
    trials, _ = Engine(narrow_after=99).run(proof)
    assert sum(trial.role == "refine" for trial in trials) == proof.most_refining == 3
    proof = ProofRule(rounds=1, refine=2)
    # the search takes 3 · 35 s, the confirmations of eagle 2 and off 65 s each, of eagle 1 45 s
    trials, reason = Engine(narrow_after=99, budget=Budget(max_downtime_s=285.0)).run(proof)
    assert not [trial for trial in trials if trial.role == "refine"]
    assert "off was not launched for the levels in between (6): about 15 s would go beyond" in reason
    trials, _ = Engine(narrow_after=99).run(replace(proof, refine=0))
    assert not [trial for trial in trials if trial.role == "refine"]


def test_a_setting_that_fails_at_levels_in_between_is_not_launched_for_them_again() -> None:
    trials, _ = Engine(narrow_after=99, failing=frozenset({OFF})).run(ProofRule(rounds=1, refine=1))
    assert [name for name in named(trials) if name.startswith("refine")] == ["refine off"]


def test_every_proof_comes_once_and_the_schedule_comes_last() -> None:
    trials, _ = Engine().run(FULL)
    assert named(trials)[6:] == [
        "baseline off, --max-running-requests 12",
        "schedule schedule 1-8:2,9-:0",
        "schedule schedule 1-8:2,9-:0",
    ]
    ramp = PlannedCell(concurrency=16, part="ramp")
    assert all(ramp in trial.cells for trial in trials if trial.role in ("confirm", "schedule"))
    assert trials[-1].config == EAGLE_2


@pytest.mark.parametrize(
    ("found", "capacities"),
    [
        (FOUND, ((OFF, 48), (EAGLE_2, 16))),  # no level asks for more than it runs
        (FOUND, ((OFF, 12), (EAGLE_2, 12))),
        (replace(FOUND, recommended=OFF, rivals=(EAGLE_2,)), ((OFF, 48), (EAGLE_2, 12))),
    ],
)
def test_equal_limits_are_measured_only_where_they_bind(
    found: Shortlist, capacities: tuple[tuple[SpecConfig, int], ...]
) -> None:
    trials, _ = Engine(found=found, capacities=capacities).run(FULL)
    assert not [trial for trial in trials if trial.lever]


def test_a_schedule_has_the_method_of_the_winners_it_was_made_from() -> None:
    ngram = SpecConfig.chain("ngram", 2)
    trials, _ = Engine(found=replace(FOUND, schedule_config=ngram)).run(FULL)
    assert [trial.config for trial in trials if trial.role == "schedule"] == [ngram, ngram]


def test_a_schedule_needs_a_finalist_to_be_set_against() -> None:
    alone = replace(FOUND, recommended=OFF, rivals=())
    trials, _ = Engine(found=alone).run(ProofRule(has_schedule=True))
    assert named(trials) == ["confirm off", "schedule schedule 1-8:2,9-:0"]
    trials, _ = Engine(found=replace(alone, recommended=None)).run(ProofRule(has_schedule=True))
    assert named(trials) == []


def test_a_schedule_without_rounds_has_one_with_its_levels_in_between() -> None:
    proof = ProofRule(refine=1, has_schedule=True)
    assert (proof.launched_rounds, proof.most_refining, ProofRule(refine=1).most_refining) == (1, 3, 0)
    trials, _ = Engine(narrow_after=99).run(proof)
    assert [trial.role for trial in trials[3:]] == ["confirm"] * 3 + ["refine"] * 3 + ["schedule"]


def test_nothing_to_recommend_means_nothing_to_prove() -> None:
    nothing = Shortlist(recommended=None, rivals=(), gaps=(), schedule=None)
    trials, _ = Engine(found=nothing).run(FULL)
    assert all(trial.is_of_search for trial in trials)


def test_a_finalist_that_fails_is_not_launched_for_ever() -> None:
    trials, _ = Engine(failing=frozenset({EAGLE_2})).run(ProofRule(rounds=1))
    assert named(trials) == ["confirm eagle 2", "confirm off", "confirm eagle 1"]


def test_a_limit_ends_it_and_says_what_was_left_out() -> None:
    trials, reason = Engine(budget=Budget(max_launches=4)).run(ProofRule(rounds=1))
    assert named(trials) == ["confirm eagle 2"]
    assert "off was not launched again: 4 launches were allowed and made" in reason
    # the search takes 3 · 35 s, a confirmation 45 s
    trials, reason = Engine(budget=Budget(max_downtime_s=160.0)).run(ProofRule(rounds=1))
    assert named(trials) == ["confirm eagle 2"]
    assert "about 45 s would go beyond the 160 s allowed, 150 s are spent" in reason
    proof = ProofRule(has_schedule=True)  # two finalists before it, then no launch is left
    trials, reason = Engine(found=replace(FOUND, rivals=(OFF,)), budget=Budget(max_launches=5)).run(proof)
    assert named(trials) == ["confirm eagle 2", "confirm off"]
    assert "schedule 1-8:2,9-:0 was not launched: 5 launches were allowed and made" in reason
    trials, _ = Engine(budget=Budget(max_downtime_s=110.0, min_launches=2)).run(ProofRule(rounds=2))
    assert named(trials) == ["confirm eagle 2", "confirm off"]


def roles(trials: list[Trial]) -> list[str]:
    return [trial.role for trial in trials if not trial.is_of_search]


def test_levels_in_between_leave_the_schedule_its_launch_and_its_free_pass() -> None:
    proof = ProofRule(rounds=1, refine=2, has_schedule=True)
    # the search takes 3 · 35 s, the confirmations 75, 75 and 55 s: the budget is used up
    budget = Budget(max_downtime_s=310.0, min_launches=4)
    trials, reason = Engine(narrow_after=99, budget=budget).run(proof)
    assert roles(trials) == ["confirm"] * 3 + ["schedule"]
    assert "off was not launched for the levels in between (6): about 15 s would go beyond" in reason
    assert "schedule" not in reason
    trials, _ = Engine(narrow_after=99, budget=Budget(max_launches=7)).run(proof)
    assert roles(trials) == ["confirm"] * 3 + ["schedule"]
    trials, reason = Engine(narrow_after=99, budget=Budget(max_launches=8)).run(proof)
    assert roles(trials) == ["confirm"] * 3 + ["refine", "schedule"]
    assert "8 launches were allowed and made" in reason


def test_time_for_the_schedule_is_kept_from_levels_in_between() -> None:
    proof = ProofRule(rounds=1, refine=2, has_schedule=True)
    # 310 s are spent after the confirmations; a launch for levels in between takes 15 s, the schedule 45 s
    budget = Budget(max_downtime_s=360.0)
    trials, _ = Engine(narrow_after=99, budget=budget).run(proof)
    assert roles(trials) == ["confirm"] * 3 + ["schedule"]
    trials, _ = Engine(narrow_after=99, budget=Budget(max_downtime_s=370.0)).run(proof)
    assert roles(trials) == ["confirm"] * 3 + ["refine", "schedule"]


def test_a_launch_for_levels_in_between_that_is_short_lets_the_next_be_tried() -> None:
    """The first one wants two levels (25 s), the next a single one (15 s), which still fits."""
    levels = (
        WantedLevel(concurrency=8, needed=frozenset({OFF}), useful=frozenset({OFF})),
        WantedLevel(concurrency=9, needed=frozenset({EAGLE_3}), useful=frozenset({EAGLE_3, OFF})),
    )
    found = replace(FOUND, rivals=(), gaps=(replace(FOUND.gaps[0], levels=levels),))
    # the search takes 3 · 35 s, the confirmation 45 s
    budget = Budget(max_downtime_s=166.0)
    trials, reason = Engine(found=found, narrow_after=99, budget=budget).run(ProofRule(rounds=1, refine=2))
    assert named(trials) == ["confirm eagle 2", "refine eagle 3"]
    assert "off was not launched for the levels in between (8): about 15 s would go beyond" in reason


def test_off_at_equal_limits_is_left_out_before_the_schedule_and_not_called_launched() -> None:
    proof = ProofRule(rounds=1, has_schedule=True, has_equal_limits=True)
    trials, reason = Engine(budget=Budget(max_launches=7)).run(proof)
    assert roles(trials) == ["confirm"] * 3 + ["schedule"]
    assert "off, --max-running-requests 12 was not launched: 7 launches were allowed and made" in reason
    budget = Budget(max_downtime_s=200.0, min_launches=4)
    trials, reason = Engine(budget=budget).run(proof)
    assert roles(trials) == ["confirm"] * 3 + ["schedule"]
    assert "off, --max-running-requests 12 was not launched: about 35 s would go beyond" in reason


def test_one_round_has_three_finalists_and_several_have_four() -> None:
    eagle_3, eagle_4 = (SpecConfig.chain("eagle", steps) for steps in (3, 4))
    many = replace(FOUND, rivals=(OFF, EAGLE_1, eagle_3, eagle_4))
    assert finalists_of(many, ProofRule(rounds=1)) == (EAGLE_2, OFF, EAGLE_1)
    assert finalists_of(many, ProofRule(rounds=2)) == (EAGLE_2, OFF, EAGLE_1, eagle_3)
