import json

import numpy as np
import pytest

from spectune.errors import ConfigError
from spectune.perfmodel.acceptance_text import acceptance_rows, parse_acceptance

SHARES = [0.8, 0.6, 0.5, 0.4]


def study(trials: list[dict[str, object]]) -> str:
    return json.dumps({"schema": "spectune.study/1", "trials": trials})


def trial(
    number: int, steps: int, levels: list[dict[str, object]], outcome: str = "completed"
) -> dict[str, object]:
    return {
        "id": number,
        "outcome": outcome,
        "effective": {"num_steps": steps, "topk": 1, "num_draft_tokens": steps + 1},
        "levels": levels,
    }


def level(steps: int, shares: list[float]) -> dict[str, object]:
    return {
        "verify_steps": steps,
        "accepted_tokens": round(steps * sum(shares)),
        "accepted_per_position": shares,
    }


def test_a_csv_gives_lengths() -> None:
    runs = parse_acceptance("num_steps,acceptance_length\n4,2.9\n1,1.7\n", "a.csv")
    assert [(run.num_steps, run.acceptance_length) for run in runs] == [(1, 1.7), (4, 2.9)]
    assert all(run.counts is None for run in runs)
    assert [row.setting.num_steps for row in acceptance_rows(runs, (1, 2, 3, 4))] == [1, 4]


def test_shares_by_position_give_the_shorter_drafts_too() -> None:
    text = json.dumps({"num_steps": 4, "accepted_per_position": SHARES, "verify_steps": 4000})
    rows = acceptance_rows(parse_acceptance(text, "a.json"), (1, 2, 3, 4, 6))
    assert [row.setting.num_steps for row in rows] == [1, 2, 3, 4]
    assert rows[-1].acceptance_length == pytest.approx(1 + sum(SHARES))
    assert np.all(np.diff([row.acceptance_length for row in rows]) > 0)
    assert rows[0].log_sd > rows[-1].log_sd


def test_a_study_gives_the_counters_of_every_chain_over_its_levels() -> None:
    text = study(
        [
            trial(1, 4, [level(100, SHARES), level(300, [0.6, 0.5, 0.4, 0.3])]),
            trial(2, 1, [level(200, [0.7])]),
            trial(3, 2, [level(10, [0.9, 0.9])], outcome="failed"),
            {"id": 4, "outcome": "completed", "effective": {"num_steps": 0, "topk": 1}, "levels": []},
        ]
    )
    short, long = parse_acceptance(text, "s.json")
    assert short.acceptance_length == pytest.approx(1.7)
    assert long.acceptance_length == pytest.approx(1 + (230 + 540) / 400)
    assert long.counts is not None
    assert long.counts.accepted == (260, 210, 170, 130)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "`valid JSON`"),
        ("[1]", "`an object, or a list of objects`"),
        ('{"acceptance_length": 2}', "`num_steps` must be given"),
        ('{"num_steps": 0, "acceptance_length": 1}', "`num_steps is a whole number >= 1`"),
        ('{"num_steps": 2}', "`acceptance_length` must be given"),
        ('{"num_steps": 2, "acceptance_length": 3.5}', "`1 <= acceptance_length <= num_steps \\+ 1`"),
        ('{"num_steps": 2, "accepted_per_position": [0.5]}', "one share per step"),
        ('{"num_steps": 2, "accepted_per_position": [0.5, 0.6]}', "one share per step"),
        ('{"num_steps": true, "acceptance_length": 2}', "`num_steps is a number`"),
        ('{"num_steps": 2, "acceptance_length": 2, "verify_steps": 0}', "`verify_steps >= 1`"),
        ('[{"num_steps": 2, "acceptance_length": 2}, {"num_steps": 2, "acceptance_length": 2}]', "2 twice"),
        ('{"schema": "spectune.study/1", "trials": []}', "`acceptance of at least one chain`"),
        ("num_steps,x\n1,2\n", "columns `num_steps` and `acceptance_length`"),
        ("num_steps,acceptance_length\n1,many\n", "`acceptance_length is a number`"),
        ("", "columns `num_steps`"),
    ],
)
def test_bad_files_are_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_acceptance(text, "file")


GOOD_TRIAL = trial(1, 4, [level(100, SHARES)])


@pytest.mark.parametrize(
    ("one", "message"),
    [
        (1, "s.json trials: `a list of objects`"),
        ({**GOOD_TRIAL, "effective": [1]}, "trial 1: `effective is an object`"),
        ({**GOOD_TRIAL, "effective": {"num_steps": "x", "topk": 1}}, "trial 1: `num_steps is a number`"),
        ({**GOOD_TRIAL, "effective": {"num_steps": 10**10, "topk": 1}}, "`num_steps <= 1000`"),
        ({**GOOD_TRIAL, "levels": [3]}, "trial 1 levels: `a list of objects`"),
        ({**GOOD_TRIAL, "levels": 5}, "trial 1 levels: `a list of objects`"),
        (trial(1, 2, [{**level(9, SHARES), "accepted_per_position": [None, "x"]}]), "one share per step"),
        (trial(1, 4, [{**level(9, SHARES), "accepted_per_position": [9, 1, 1, 1]}]), "one share per step"),
        (trial(1, 4, [{**level(9, SHARES), "verify_steps": 10**400}]), "at most 30 digits"),
        (trial(1, 4, [{**level(9, SHARES), "verify_steps": 10**20}]), "`verify_steps <= 1000000000000`"),
        (trial(1, 4, [{**level(9, SHARES), "accepted_tokens": "x"}]), "`accepted_tokens is a number`"),
    ],
)
def test_studies_of_another_shape_are_refused(one: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_acceptance(json.dumps({"schema": "spectune.study/1", "trials": [one]}), "s.json")


def test_a_level_without_counters_is_left_out() -> None:
    (run,) = parse_acceptance(study([trial(1, 4, [{"verify_steps": None}, level(100, SHARES)])]), "s.json")
    assert run.verify_steps == 100


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"num_steps": 1e300, "acceptance_length": 2}', "`num_steps <= 1000`"),
        ('{"num_steps": 2, "acceptance_length": 2, "verify_steps": 1e300}', "verify_steps <= 1000000000000`"),
        ('{"num_steps": 1, "accepted_per_position": [1' + "0" * 400 + "]}", "at most 30 digits"),
        ('{"num_steps": 1, "accepted_per_position": [1e300]}', "one share per step"),
        ("[" * 20_000 + "]" * 20_000, "levels of nesting"),
        ("num_steps,acceptance_length\n1," + "9" * 200_000, "file line 2: `valid CSV`"),
    ],
)
def test_files_out_of_bounds_are_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_acceptance(text, "file")
