import io
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
        (["TABLE", "--num-steps", "1000000"], "--num-steps: `each number <= 1000` must hold, got 1000000"),
        (["TABLE", "--concurrency", "9999999..9999999"], "--concurrency: `each number <= 1000000`"),
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


@pytest.fixture
def new(table: Path) -> Path:
    path = table.with_name("new.csv")
    path.write_text("num_steps,acceptance_length\n4,1.8\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("link", ["", "symbolic", "hard"])
@pytest.mark.parametrize("flag", ["TABLE", "--acceptance"])
def test_an_input_is_never_overwritten(table: Path, new: Path, flag: str, link: str) -> None:
    source = target = table if flag == "TABLE" else new
    before = source.read_bytes()
    if link:
        target = table.with_name("other")
        if link == "hard":
            target.hardlink_to(source)
        else:
            target.symlink_to(source)
    with pytest.raises(ConfigError, match=f"`it is another file than that of {flag}`") as caught:
        run_predict([str(table), "--acceptance", str(new), "--json", str(target)])
    assert caught.value.exit_status == 2
    assert source.read_bytes() == before


def test_an_unwritable_file_is_noticed_before_the_fit(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spectune.cli.predict.answer", lambda *_: pytest.fail("the table was fitted"))
    with pytest.raises(ConfigError, match="`the file must be writable`"):
        run_predict([str(table), "--json", str(table.parent)])


def test_results_are_kept_where_a_table_cannot_be_rendered(table: Path) -> None:
    kept = table.with_name("o.json")
    kept.write_text("kept", encoding="utf-8")
    row = {"num_steps": 1, "concurrency": 1, "output_tps": 9, "workload": "\ud800"}
    table.write_text(json.dumps([row]), encoding="utf-8")
    with pytest.raises(ConfigError, match="without lone surrogates"):
        run_predict([str(table), "--json", str(kept)])
    assert kept.read_text(encoding="utf-8") == "kept"


def test_a_name_that_is_no_text_is_escaped(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    odd, target = table.with_name("t\udcff.csv"), table.with_name("o.json")
    try:
        table.rename(odd)
    except OSError:
        pytest.skip("this file system takes text only")
    assert run_predict([str(odd), "--json", str(target)]) == 0
    assert json.loads(target.read_text(encoding="utf-8"))
    assert "t\\udcff.csv" in capsys.readouterr().out


def test_bytes_that_stdin_let_pass_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(TABLE + "\udcff"))
    with pytest.raises(ConfigError, match="`a text file in UTF-8`"):
        run_predict(["-"])
