"""Streams that are closed, full or of another encoding: never a traceback, never a lost result."""

import json
import shlex
import subprocess
import sys
from typing import Any

import pytest


def shell(bench: Any, line: str) -> subprocess.CompletedProcess[bytes]:
    """Runs `spectune` with a shell's redirections."""
    command = f"{shlex.quote(sys.executable)} -m spectune {line}"
    return subprocess.run(
        ["sh", "-c", command], env=bench.environment, capture_output=True, timeout=100, check=False
    )


def test_a_full_stdout_is_one_clear_line(finished: Any) -> None:
    ran = shell(finished, "show last > /dev/full")
    assert ran.returncode == 1
    assert ran.stderr == b"spectune: stdout: `it can be written` must hold, got: No space left on device.\n"


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", ">&- 2>&- <&-"])
def test_closed_streams_do_not_disturb_the_work(finished: Any, closed: str) -> None:
    target = finished.folder / "closed.json"
    target.unlink(missing_ok=True)
    ran = shell(finished, f"show last --json {shlex.quote(str(target))} {closed}")
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert json.loads(target.read_text())["schema"] == "spectune.study/1"


def test_a_study_is_measured_without_any_stream(bench: Any) -> None:
    ran = shell(bench, f"tune {shlex.join([*bench.question('0'), *bench.server()])} >&- 2>&- <&-")
    assert ran.returncode == 0
    assert "finished" in bench.run("show").stdout


@pytest.mark.parametrize("setting", ["PYTHONIOENCODING=ascii", "LC_ALL=C PYTHONCOERCECLOCALE=0 PYTHONUTF8=0"])
def test_output_is_utf8_in_every_locale(finished: Any, setting: str) -> None:
    command = f"{setting} {shlex.quote(sys.executable)} -m spectune show last"
    ran = subprocess.run(
        ["sh", "-c", command], env=finished.environment, capture_output=True, timeout=100, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert ran.stdout.decode() == finished.run("show", "last").stdout
