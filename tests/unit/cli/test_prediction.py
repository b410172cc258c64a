import json

import pytest

from spectune.cli.prediction import Grid, NewPrompts, answer
from spectune.errors import ConfigError
from spectune.report.prediction_report import prediction_document
from spectune.report.terminal import render_terminal

TABLE = """num_steps,concurrency,output_tps,max_running_requests,note
1,1,123,26,a
4,1,277,12,a
1,16,1500,26,a
4,16,1596,12,a
1,64,1566,26,a
4,64,1817,12,a
"""


def test_the_default_grid_is_the_measured_range_and_levels() -> None:
    page = answer(TABLE, "t.csv")
    assert {c.cell.setting.num_steps for c in page.prediction.surface} == {1, 2, 3, 4}
    assert {c.cell.concurrency for c in page.prediction.surface} == {1, 16, 64}
    assert page.num_rows == 6


def test_what_cannot_be_trusted_is_said() -> None:
    warnings = " ".join(answer(TABLE, "t.csv", Grid(num_steps=(0, 4), concurrency=(1, 128))).warnings)
    assert "concurrency 128 lies outside the measured 1 to 64" in warnings
    assert "off was not measured" in warnings
    assert "columns not read: note" in warnings


def test_cells_in_overload_are_left_out_of_the_fit() -> None:
    page = answer(TABLE + "1,128,60,26,a\n", "t.csv")
    assert page.num_rows == 6
    assert any("overload: 60 tok/s" in w for w in page.warnings)


def test_trees_that_were_measured_stay_in_the_grid() -> None:
    text = "num_steps,topk,num_draft_tokens,concurrency,output_tps\n0,1,1,1,200\n3,1,4,1,400\n3,4,8,1,330\n"
    page = answer(text, "t.csv")
    assert {(c.cell.setting.num_steps, c.cell.setting.topk) for c in page.prediction.surface} >= {
        (3, 1),
        (3, 4),
    }


def prompts(shares: list[float], running: int | None = None) -> NewPrompts:
    text = json.dumps({"num_steps": len(shares), "accepted_per_position": shares, "verify_steps": 5000})
    return NewPrompts(text=text, name="new.json", running=running)


def test_prompts_that_are_hard_to_draft_call_for_fewer_steps_without_a_launch() -> None:
    part = answer(TABLE, "t.csv", new=prompts([0.45, 0.2, 0.08, 0.03], running=4)).transfer
    assert part is not None
    assert dict(part.lengths)[4] == pytest.approx(1.76)
    assert {one.concurrency for one in part.verdicts} == {1, 16, 64}
    assert all(one.current.num_steps == 4 for one in part.verdicts)
    assert part.verdicts[-1].best.num_steps < 4
    assert any("the table has no acceptance_length" in w for w in part.warnings)


def test_the_settings_that_run_are_the_tables_best_unless_said() -> None:
    page = answer(TABLE, "t.csv", new=prompts([0.95, 0.9, 0.86, 0.82]))
    assert page.transfer is not None
    best = {w.cell.concurrency: w.cell.setting for w in page.prediction.winners}
    assert {one.concurrency: one.current for one in page.transfer.verdicts} == best


def test_a_running_setting_outside_the_grid_is_refused() -> None:
    with pytest.raises(ConfigError, match="--running: `one of the predicted num_steps`"):
        answer(TABLE, "t.csv", new=prompts([0.5], running=7))


def test_the_models_shape_says_which_limit_makes_room() -> None:
    speeds = {(1, 1): 123, (1, 16): 1500, (1, 64): 1566, (4, 1): 277, (4, 16): 1596, (4, 64): 1817}
    rows = [
        {"num_steps": k, "concurrency": c, "output_tps": y, "max_running_requests": 26 if k == 1 else 12}
        for (k, c), y in speeds.items()
    ]
    pools = {"law": "reserve_first", "state_bytes": 38_412_288, "cell_bytes": 12_288, "max_requests": 48}
    page = answer(json.dumps({"rows": rows, "pools": pools}), "t.json")
    (four,) = [one for one in page.limits if one.draft_tokens == 5]
    assert four.now == 12
    assert four.then > 20
    text = render_terminal(prediction_document(page))
    assert (
        f"--max-running-requests {four.limit} makes room for {four.then} requests instead of 12"
        in " ".join(text.split())
    )


def test_more_rows_than_can_be_fitted_in_a_minute_are_refused_with_their_number() -> None:
    rows = [f"{steps},{level},{50 * level + steps}" for steps in range(1, 42) for level in range(1, 31)]
    text = "\n".join(["num_steps,concurrency,output_tps", *rows])
    with pytest.raises(ConfigError, match=r"t\.csv: `at most 1200 rows` must hold, got 1230; leave out"):
        answer(text, "t.csv", Grid(num_steps=(1, 4), concurrency=(1, 4)))
