import json

import pytest

from spectune.analysis.answers import answer
from spectune.report.proof_json import confirmation_json, proof_json, ranges_json
from spectune.report.study_json import render_json
from spectune.testing.proved_study import SCHEDULE, proved_study
from spectune.testing.result_schema import schema_faults
from spectune.testing.study_values import history_of

ANSWERS = answer(proved_study(), lambda _: (), lambda config, found: {config.method: found.label})


def test_a_study_that_proved_everything_keeps_the_schema() -> None:
    assert list(schema_faults(json.loads(render_json(ANSWERS)))) == []


def test_baselines_break_even_and_schedule_are_those_of_the_answers() -> None:
    value = json.loads(json.dumps(proof_json(ANSWERS)))
    assert value["baselines"] == {"equal_limits": 8, "own_capacity": 1}
    assert value["break_even"] == {
        "concurrency": [16, 23],
        "why": "",
        "uncertain": [23],
        "narrow": False,
        "why_wide": "the settings that meet there were not both measured in between",
    }
    schedule = value["schedule"]
    assert schedule["ranges"] == [[1, 8, 3], [9, 22, 1], [23, None, 0]]
    assert schedule["exported"] == {"eagle": SCHEDULE.label}
    assert schedule["verdict"] == "recommended"
    places = [(cell["concurrency"], cell["ramp"]) for cell in schedule["measured"]]
    assert places == [(1, False), (4, False), (16, False), (32, False), (32, True)]
    assert schedule["measured"][0]["vs_off"] == pytest.approx(1.97, rel=0.01)
    low, high = schedule["measured"][0]["vs_off_ci"]
    assert low < 1.97 < high


def test_lossless_noise_and_mix_have_their_figures() -> None:
    value = json.loads(json.dumps(proof_json(ANSWERS)))
    assert value["lossless"]["verdict"] == "exact"
    assert value["lossless"]["checked_tokens"] > 7000
    assert value["lossless"]["first_divergence"] is None
    assert value["noise"]["repeats"] == 3
    assert value["noise"]["drift"]["arms"] == 3
    assert value["mix"]["asked"] is False
    assert value["mix"]["best_fixed_losses"]["1"] == pytest.approx(0.25, abs=0.01)


def test_a_confirmation_has_both_ratios_with_their_intervals() -> None:
    assert ANSWERS.recommendation is not None
    value = confirmation_json(ANSWERS.recommendation.confirmation)
    assert (value["verdict"], value["launches"]) == ("confirmed", 1)
    assert value["over_off"] == pytest.approx(1.22, abs=0.01)
    assert isinstance(value["over_off_ci"], list)


def test_a_search_alone_leaves_null_and_says_so() -> None:
    value = proof_json(answer(history_of({0: {1: 100}, 2: {1: 150}}), lambda _: ()))
    assert value["schedule"] is None
    assert value["noise"] == {
        "prompt_sd": pytest.approx(0.0, abs=1e-6),
        "block_sd": pytest.approx(0.0, abs=1e-6),
        "launch_sd": pytest.approx(0.015),
        "launch_degrees": 6.0,
        "repeats": 0,
        "drift": None,
    }


def test_a_fixed_setting_has_no_ranges() -> None:
    assert ranges_json(None) is None
