from dataclasses import replace

import pytest

from spectune.analysis.caveats import Caveat, find_caveats
from spectune.analysis.study_fit import fit_study
from spectune.domain.measurement import SpecCounters
from spectune.domain.spec_config import SpecConfig
from spectune.domain.study import StudyHistory
from spectune.domain.trial import Completed
from spectune.report.proof_text import caveat_text
from spectune.testing.study_values import make_completed, make_history, make_plan, make_study

EAGLE_2 = SpecConfig.chain("eagle", 2)


def accepting(shares: dict[int, float], *, extra: int = 0) -> StudyHistory:
    """Eagle 2 that accepts this share of its draft at each level."""
    completed = make_completed(1, 2, dict.fromkeys(shares, 100.0))
    levels = []
    for level in completed.levels:
        tokens = sum(record.output_tokens or 0 for record in level.records) - len(level.records)
        steps = round(tokens / (1 + 2 * shares[level.concurrency]))
        counters = SpecCounters(
            verify_steps=steps,
            undrafted_steps=0,
            drafted_tokens=2 * steps,
            accepted_tokens=tokens - steps + extra,
        )
        levels.append(replace(level, counters=counters))
    return make_history(make_study(concurrency=tuple(shares)), (replace(completed, levels=tuple(levels)),))


def caveats(history: StudyHistory) -> tuple[Caveat, ...]:
    return find_caveats(history, fit_study(history).measured)


@pytest.mark.parametrize(
    ("shares", "kinds"),
    [
        ({1: 0.5, 8: 0.5}, []),
        ({1: 0.001, 8: 0.0}, ["no acceptance"]),
        ({1: 0.98, 8: 0.98}, ["all accepted"]),
        ({1: 0.7, 8: 0.3}, ["acceptance falls"]),
    ],
)
def test_acceptance_tells_a_wrong_draft_degenerate_text_and_a_broken_engine(
    shares: dict[int, float], kinds: list[str]
) -> None:
    found = caveats(accepting(shares))
    assert [caveat.kind for caveat in found] == kinds
    assert all(caveat.config == EAGLE_2 for caveat in found)


def test_counters_that_break_an_identity_are_unreadable() -> None:
    (found,) = caveats(accepting({1: 0.5}, extra=900))
    assert found.kind == "unreadable counters"
    assert "must hold" in found.detail


def test_fresh_prompts_that_were_the_searchs_are_told() -> None:
    history = accepting({1: 0.5})
    plan = make_plan(1)
    used = replace(history, plans=(plan, replace(plan, part="fresh")))
    (found,) = caveats(used)
    assert (found.kind, found.concurrency, found.value) == ("not fresh", (1,), 1.0)


def grid(odd: float) -> StudyHistory:
    """Off and eagle 1 to 5 at three levels; the speed of eagle 2 at 4 is `odd` times what it was."""
    gains = {0: 1.0, 1: 1.3, 2: 1.45, 3: 1.5, 4: 1.48, 5: 1.42}
    outcomes = []
    for trial_id, (steps, gain) in enumerate(gains.items(), 1):
        speeds = {level: 100.0 * level**0.8 * gain for level in (1, 4, 16)}
        if steps == 2:
            speeds[4] *= odd
        outcomes.append(make_completed(trial_id, steps, speeds))
    return make_history(make_study(concurrency=(1, 4, 16)), tuple(outcomes))


def test_a_cell_that_the_others_do_not_expect_is_told() -> None:
    (found,) = [one for one in caveats(grid(0.5)) if one.kind == "surprising"]
    assert (found.config, found.concurrency) == (EAGLE_2, (4,))
    assert caveat_text(found).startswith("eagle 2 at 4 is surprising: ")
    assert "where the other cells expect about 4" in caveat_text(found)  # 440 tok/s by the rule of the others


def test_a_smooth_surface_is_no_surprise() -> None:
    assert [one for one in caveats(grid(1.0)) if one.kind == "surprising"] == []


def test_a_surprise_is_told_under_the_setting_that_was_asked_for() -> None:
    history = grid(0.5)
    third = history.outcomes[2]
    assert isinstance(third, Completed)
    in_force = replace(third.effective, config=SpecConfig.chain("eagle", 6))
    outcomes = (*history.outcomes[:2], replace(third, effective=in_force), *history.outcomes[3:])
    (found,) = [one for one in caveats(replace(history, outcomes=outcomes)) if one.kind == "surprising"]
    assert found.config == EAGLE_2
