import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.errors import ConfigError
from spectune.perfmodel.table import TableRow, evidence_of, parse_table

GOOD = "num_steps,concurrency,output_tps\n0,1,100\n1,1,160\n4,1,220\n"


def rows(text: str) -> tuple[TableRow, ...]:
    return parse_table(text, "t.csv").rows


def test_csv_and_json_say_the_same() -> None:
    records = [{"num_steps": k, "concurrency": 1, "output_tps": y} for k, y in ((0, 100), (1, 160), (4, 220))]
    for text in (json.dumps(records), json.dumps({"rows": records})):
        found = parse_table(text, "t.json").rows
        assert [(r.cell, r.output_tps) for r in found] == [(r.cell, r.output_tps) for r in rows(GOOD)]


def test_speed_of_one_request_times_concurrency_is_the_total() -> None:
    text = "num_steps;concurrency;request_tps\n1;4;100\n2;4;120\n2;1;140\n"
    assert [r.output_tps for r in rows(text)] == [400, 480, 140]


def test_metric_may_differ_by_row() -> None:
    text = (
        "num_steps,concurrency,value,metric\n1,4,100,request_tps\n2,4,520,output_tps\n2,1,140,per_request\n"
    )
    assert [r.output_tps for r in rows(text)] == [400, 520, 140]


def test_optional_columns_are_read_and_others_named() -> None:
    text = (
        "num_steps,concurrency,output_tps,acceptance_length,max_running_requests,workload,gpu\n"
        "0,1,100,,40,chat,H200\n3,1,210,2.9,30,chat,H200\n3,8,900,3.1,30,chat,H200\n"
    )
    table = parse_table(text, "t.csv")
    evidence = evidence_of(table, [2])
    assert table.ignored == ("gpu",)
    (acceptance,) = evidence.acceptance
    assert acceptance.acceptance_length == pytest.approx(3.0)
    assert acceptance.workload == "chat"
    assert all(30 <= n <= 40 for c in evidence.capacity for _, tokens, n in c.running if tokens == 2)


@given(st.permutations(range(4)))
def test_evidence_does_not_depend_on_the_order_of_rows(order: list[int]) -> None:
    lines = ["0,1,100", "1,1,160", "4,1,220", "4,1,225"]
    text = "num_steps,concurrency,output_tps\n" + "\n".join(lines[i] for i in order)
    assert evidence_of(parse_table(text, "t"), [2]) == evidence_of(parse_table(GOOD + "4,1,225\n", "t"), [2])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "at least one row"),
        ("num_steps,concurrency,output_tps\n", "at least one row"),
        ("steps,concurrency,output_tps\n1,1,2\n", "column `num_steps` is missing; found concurrency"),
        ("num_steps,concurrency,speed\n1,1,2\n", "column `output_tps or request_tps` is missing"),
        (GOOD + "2,x,3\n", r"line 5: `concurrency is a number` must hold, got 'x'"),
        (GOOD + "2,1,fast\n", "line 5: `output_tps is a number` must hold, got 'fast'"),
        (GOOD + "2,1,nan\n", "`output_tps is a number`"),
        (GOOD + "2,1,-3\n", "`output_tps > 0` must hold, got -3"),
        (GOOD + "-2,1,3\n", "`num_steps is a whole number >= 0` must hold, got -2"),
        (GOOD + "2.5,1,3\n", "`num_steps is a whole number >= 0` must hold, got 2.5"),
        (GOOD + "2,0,3\n", "`concurrency is a whole number >= 1`"),
        (GOOD + "2,1\n", "as many values as columns"),
        (GOOD + "2,,3\n", "line 5: `concurrency` must be given"),
        (GOOD + "4,1,300\n", "line 5: `repeats of a cell agree within 10%` .* 220 in t.csv line 4"),
        ("num_steps,concurrency,output_tps\n3,1,100\n3,8,500\n", "two num_steps.* measure num_steps 1"),
        ("num_steps,concurrency,output_tps\n1,1,100\n3,1,150\n", "3 different cells.*second concurrency"),
        ("num_steps,concurrency,output_tps,metric\n1,1,100,latency\n", "`metric is"),
        ("num_steps,concurrency,output_tps,acceptance_length\n1,1,100,2.4\n", "acceptance_length <= num"),
        ('[{"num_steps": 1,', "valid JSON"),
        ('{"cells": []}', "a list of objects"),
        ('[{"num_steps": true, "concurrency": 1, "output_tps": 3}]', "`num_steps is a number`"),
        (GOOD + "1000000000,1,3\n", "line 5: `num_steps <= 1000` must hold, got 1e\\+09"),
        (GOOD + "1e300,1,3\n", "`num_steps <= 1000` must hold, got 1e\\+300"),
        (GOOD + "2,1e300,3\n", "`concurrency <= 1000000`"),
        (GOOD + "2,1,1e300\n", "1e-06 <= output_tps <= 1e\\+12` must hold, got 1e\\+300; check the unit"),
        (GOOD + "2,1,1e999\n", "`output_tps is a number`"),
        (GOOD + "2,\u0663,3\n", "`concurrency is a number`"),
        (GOOD + "2,1_0,3\n", "`concurrency is a number`"),
        ("num_steps,concurrency,request_tps\n1,1000000,1e308\n", "request_tps <= 1e\\+12`"),
        ("num_steps,concurrency,output_tps,topk\n1,1,100,1e300\n", "`topk <= 100`"),
        ("num_steps,concurrency,output_tps,num_draft_tokens\n1,1,9,1e9\n", "`num_draft_tokens <= 100001`"),
        ("num_steps,concurrency,output_tps,max_running_requests\n1,1,9,1e300\n", "requests <= 1000000`"),
        ("num_steps,concurrency,output_tps\n1,1," + "9" * 200_000, "line 2: `valid CSV` must hold"),
        ("[" * 20_000 + "]" * 20_000, "t.csv: `at most 50 levels of nesting`"),
        ('[{"num_steps": ' + "9" * 5000 + "}]", "t.csv: `whole numbers of at most 30 digits`"),
        ('[{"num_steps": ' + "9" * 400 + "}]", "t.csv: `whole numbers of at most 30 digits`"),
        ('[{"workload": "\\ud800"}]', "t.csv: `text without lone surrogates`"),
    ],
)  # fmt: skip
def test_bad_tables_are_refused_with_place_and_rule(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_table(text, "t.csv")


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("1,1,9,20\n2,1,10,30\n2,4,30,30\n", "never grows"),
        ("1,1,9,20\n2,1,10,10\n2,4,30,11\n", "is the same for one"),
    ],
)
def test_capacity_that_contradicts_itself_is_refused(lines: str, message: str) -> None:
    table = parse_table("num_steps,concurrency,output_tps,max_running_requests\n" + lines, "t.csv")
    with pytest.raises(ConfigError, match=message):
        evidence_of(table, [2])


def test_the_models_shape_and_one_readback_give_every_capacity() -> None:
    """Published: 26, 21, 17 requests at 1, 2, 3 steps of Qwen3.5-122B-A10B; 455357 tokens at 1."""
    record = {
        "rows": [
            {
                "num_steps": 1,
                "concurrency": c,
                "output_tps": y,
                "max_running_requests": 26,
                "max_total_num_tokens": 455_357,
            }
            for c, y in ((1, 123), (64, 1566))
        ]
        + [{"num_steps": 4, "concurrency": 1, "output_tps": 277}],
        "pools": {
            "law": "reserve_first",
            "state_bytes": 38_412_288,
            "cell_bytes": 12_288,
            "max_requests": 48,
        },
    }
    evidence = evidence_of(parse_table(json.dumps(record), "t.json"), [2, 3, 4, 5])
    assert {(d, n) for curve in evidence.capacity for _, d, n in curve.running} == {
        (2, 26),
        (3, 21),
        (4, 17),
        (5, 12),
    }
    for pools, message in (
        ([], "`an object`"),
        ({"state_bytes": 1, "cell_bytes": 1}, "`max_requests is a number`"),
        ({**record["pools"], "colour": 1}, "`only state_bytes"),  # type: ignore[dict-item]
        ({**record["pools"], "law": "magic"}, "`law is one of"),  # type: ignore[dict-item]
    ):
        with pytest.raises(ConfigError, match=message):
            parse_table(json.dumps({**record, "pools": pools}), "t.json")
