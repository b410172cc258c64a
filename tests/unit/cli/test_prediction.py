from spectune.cli.prediction import answer

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
    warnings = " ".join(answer(TABLE, "t.csv", num_steps=(0, 4), concurrency=(1, 128)).warnings)
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
