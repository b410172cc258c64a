import json
from pathlib import Path

import pytest

from spectune.cli.predict import run_predict
from spectune.errors import ConfigError

TABLE = "num_steps,concurrency,output_tps\n1,1,160\n4,1,220\n1,16,1500\n4,16,1700\n1,64,4000\n4,64,3300\n"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "table.csv"
    path.write_text(TABLE, encoding="utf-8")
    return path


def test_the_page_goes_to_stdout(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_predict([str(table)]) == 0
    text = capsys.readouterr().out
    assert "spectune prediction from table.csv" in text
    assert "num_steps 4 → num_steps" in text


def test_the_grid_is_what_was_asked_for(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_predict([str(table), "--num-steps", "0..2", "--concurrency", "1,8", "--json", "-"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert {(c["num_steps"], c["concurrency"]) for c in data["surface"]} == {
        (k, c) for k in (0, 1, 2) for c in (1, 8)
    }
    assert any("off was not measured" in w for w in data["warnings"])


def test_json_goes_to_a_file_beside_the_page(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = table.with_suffix(".json")
    assert run_predict([str(table), "--json", str(target)]) == 0
    assert json.loads(target.read_text(encoding="utf-8"))["schema"] == "spectune.prediction/1"
    assert "prediction from" in capsys.readouterr().out


def test_equal_tables_give_equal_answers(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outputs = []
    head, *lines = TABLE.split("\n")
    for order in (lines, sorted(lines, reverse=True)):
        table.write_text("\n".join([head, *order]), encoding="utf-8")
        run_predict([str(table), "--json", "-"])
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1]


def test_new_prompts_get_a_verdict_per_level(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    acceptance = table.with_name("new.csv")
    acceptance.write_text("num_steps,acceptance_length\n4,1.8\n", encoding="utf-8")
    words = [str(table), "--acceptance", str(acceptance), "--running", "4"]
    assert run_predict([*words, "--json", "-"]) == 0
    found = json.loads(capsys.readouterr().out)["new_prompts"]
    assert found["acceptance"] == [{"num_steps": 4, "acceptance_length": 1.8}]
    assert [one["concurrency"] for one in found["levels"]] == [1, 16, 64]
    assert {one["verdict"] for one in found["levels"]} <= {"keep", "change", "measure"}
    assert run_predict(words) == 0
    text = capsys.readouterr().out
    assert "New prompts" in text
    assert "1.80 at num_steps 4" in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["missing.csv"], "`the file must be readable`"),
        ([], "the following arguments are required: TABLE"),
        (["TABLE", "--num-steps", "a"], "--num-steps"),
        (["TABLE", "--concurrency", "0"], "--concurrency"),
        (["TABLE", "--concurrency", "1..900", "--num-steps", "0..2"], "at most 1200 cells"),
        (["TABLE", "--json", "/nowhere/x.json"], "`the file must be writable`"),
        (["TABLE", "--fast"], "unrecognized arguments"),
        (["TABLE", "--running", "4"], "`--acceptance FILE` must be given"),
        (["TABLE", "--acceptance", "missing.json"], "`the file must be readable`"),
        (["TABLE", "--acceptance", "TABLE"], "columns `num_steps` and `acceptance_length`"),
        (["TABLE", "--acceptance", "TABLE", "--running", "1,4"], "`one num_steps`"),
    ],
)
def test_bad_input_is_a_configuration_error(table: Path, words: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        run_predict([str(table) if w == "TABLE" else w for w in words])
    assert caught.value.exit_status == 2


def test_bytes_that_are_no_text_are_refused(table: Path) -> None:
    table.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="UTF-8"):
        run_predict([str(table)])
