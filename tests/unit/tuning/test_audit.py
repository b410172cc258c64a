from dataclasses import replace

from spectune.domain.measurement import SpecCounters
from spectune.domain.schedule import Schedule
from spectune.domain.spec_config import OFF, SpecConfig
from spectune.domain.trial import Trial, TrialId
from spectune.testing.study_values import make_effective
from spectune.tuning import audit
from spectune.tuning.audit import covariates_differ

CHAIN = SpecConfig.chain("eagle", 3)
SCHEDULE = Schedule.of((1, 4, 3), (5, None, 0))
MOVED = SpecCounters(verify_steps=5, undrafted_steps=0, drafted_tokens=15, accepted_tokens=9)
STILL = SpecCounters(verify_steps=0, undrafted_steps=20, drafted_tokens=0, accepted_tokens=0)
FALLEN = SpecCounters(verify_steps=-5, undrafted_steps=0, drafted_tokens=-15, accepted_tokens=-9)


def asked(config: SpecConfig) -> Trial:
    return Trial(id=TrialId(1), config=config, role="setting")


def settings_differ(requested: SpecConfig, effective: SpecConfig) -> str:
    return audit.settings_differ(asked(requested), make_effective(effective))


def speculation_differs(config: SpecConfig, counters: SpecCounters | None) -> str:
    return audit.speculation_differs(asked(config), make_effective(config), counters)


def test_equal_settings_do_not_differ() -> None:
    assert settings_differ(CHAIN, SpecConfig.chain("eagle", 3)) == ""


def test_every_difference_is_named_with_both_values() -> None:
    told = settings_differ(CHAIN, SpecConfig.chain("ngram", 2))
    assert "method eagle was asked for, ngram runs" in told
    assert "num_steps 3 was asked for, 2 runs" in told
    assert "topk" not in told


def test_speculation_must_move_its_counter_and_off_must_not() -> None:
    assert speculation_differs(CHAIN, MOVED) == ""
    assert speculation_differs(OFF, STILL) == ""
    assert "not really on" in speculation_differs(CHAIN, STILL)
    assert "not really on" in speculation_differs(CHAIN, FALLEN)
    assert "asked to be off" in speculation_differs(OFF, MOVED)


def test_counters_that_an_engine_does_not_have_prove_nothing() -> None:
    assert speculation_differs(CHAIN, None) == ""


def test_drafts_longer_than_asked_for_are_not_what_was_asked() -> None:
    longer = SpecCounters(verify_steps=5, undrafted_steps=0, drafted_tokens=16, accepted_tokens=9)
    assert "longer" in speculation_differs(CHAIN, longer)
    shorter = SpecCounters(verify_steps=5, undrafted_steps=0, drafted_tokens=6, accepted_tokens=5)
    assert speculation_differs(CHAIN, shorter) == ""


def test_a_schedule_must_be_the_one_that_runs() -> None:
    trial = replace(asked(CHAIN), schedule=SCHEDULE)
    effective = make_effective(CHAIN)
    assert audit.settings_differ(trial, replace(effective, schedule=SCHEDULE)) == ""
    told = audit.settings_differ(trial, effective)
    assert told == "schedule 1-4:3,5-:0 was asked for, none runs"
    other = audit.settings_differ(asked(CHAIN), replace(effective, schedule=SCHEDULE))
    assert other == "schedule none was asked for, 1-4:3,5-:0 runs"


def test_a_schedule_may_rest_only_where_it_has_a_range_of_no_steps() -> None:
    effective = make_effective(CHAIN)
    assert audit.speculation_differs(replace(asked(CHAIN), schedule=SCHEDULE), effective, STILL) == ""
    always = replace(asked(CHAIN), schedule=Schedule.of((1, 4, 3), (5, None, 1)))
    assert "not really on" in audit.speculation_differs(always, effective, STILL)


def test_covariates_that_both_arms_declare_must_be_equal() -> None:
    first = {"max_running_requests": "48", "page_size": "1"}
    assert covariates_differ(first, {"max_running_requests": "48", "tp_size": "4"}) == ""
    told = covariates_differ(first, {"max_running_requests": "26"})
    assert "max_running_requests is 26 here and 48" in told
