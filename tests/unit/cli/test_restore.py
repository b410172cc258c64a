from pathlib import Path

import pytest

from spectune.cli.restore import dropped_text, run_restore


def test_a_command_of_another_machine_is_shown_quoted_and_cannot_rule_the_terminal() -> None:
    told = dropped_text(("undrain", "a b; rm -rf ~", "\x1b[2Jx"))
    assert "run it yourself if you want to: undrain 'a b; rm -rf ~' '?[2Jx'\n" in told


def test_without_a_journal_there_is_nothing_to_restore(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert run_restore([]) == 0
    assert "nothing to restore" in capsys.readouterr().out
