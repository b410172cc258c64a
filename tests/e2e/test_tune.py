"""A whole study with real processes, and what is left of it."""

import json
import os
import pty
import signal
import socket
import sqlite3
import subprocess
import sys
from contextlib import closing, suppress
from typing import Any

import pytest

from spectune.testing.result_schema import schema_faults
from tests.e2e.conftest import wait_until

Json = dict[str, Any]
SLOW = ("--sim-time-scale", "8")
"""Steps of 16 ms and more: what other processes take from a step is small beside what settings differ by."""


def study_ids(bench: Any) -> list[str]:
    with closing(sqlite3.connect(bench.store)) as connection:
        return [row[0] for row in connection.execute("SELECT id FROM study ORDER BY created_unix_s")]


def is_listening(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5):
        return True
    return False


def server_logs(bench: Any) -> str:
    """What the bench's servers have printed so far."""
    return "".join(path.read_text(encoding="utf-8") for path in bench.folder.rglob("*.log"))


def read_until(process: subprocess.Popen[str], text: str) -> None:
    """Reads stderr up to a line that holds `text`."""
    assert process.stderr is not None
    for line in process.stderr:
        if text in line:
            return
    raise AssertionError(f"{text!r} never came; exit status {process.wait()}")


def test_a_study_ends_in_a_table_files_and_nothing_left_behind(bench: Any) -> None:
    json_file, report = bench.folder / "out.json", bench.folder / "report.md"
    ran = bench.run(
        "tune", *bench.question("0..2", "8"), "--json", str(json_file), "--report", str(report),
        *bench.server(*SLOW),
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert bench.servers() == []
    assert "Recommendation: eagle" in ran.stdout
    assert "\x1b" not in ran.stdout + ran.stderr
    assert max(map(len, ran.stdout.splitlines())) <= 100
    result: Json = json.loads(json_file.read_text())
    assert list(schema_faults(result)) == []
    assert [trial["requested"]["num_steps"] for trial in result["trials"]] == [0, 1, 2]
    assert all(winner["speedup_over_off"] > 1 for winner in result["winners"])
    assert report.read_text().startswith("# spectune study ")

    again = bench.run("show", "last", "--json", str(bench.folder / "again.json"))
    assert again.stdout == ran.stdout
    assert (bench.folder / "again.json").read_text() == json_file.read_text()
    assert result["study_id"] in bench.run("show").stdout


def test_the_finalists_are_launched_again_on_fresh_prompts(bench: Any) -> None:
    question = (*bench.question("0,2", is_thorough=True), "--confirm", "1", "--refine", "0", "--no-schedule")
    ran = bench.run("tune", *question, "--json", "-", *bench.server())
    assert ran.returncode == 0, ran.stderr
    result: Json = json.loads(ran.stdout)
    assert list(schema_faults(result)) == []
    assert [trial["requested"]["num_steps"] for trial in result["trials"]] == [0, 2, 2, 0]
    assert "eagle 2, again at 4 on fresh prompts: " in ran.stderr
    assert "off, again at 4: " in ran.stderr  # the anchor
    assert bench.servers() == []


def test_off_at_equal_limits_is_launched_where_speculation_runs_fewer(bench: Any) -> None:
    """Off runs 6 at once, eagle 2 runs 4; at 6 it is the fastest all the same."""
    question = [*bench.question("0,2", is_thorough=True), "--confirm", "1", "--refine", "0", "--no-schedule"]
    question[question.index("--concurrency") + 1] = "1,6"
    json_file = bench.folder / "out.json"
    flags = ("--max-running-requests", "6")
    ran = bench.run("tune", *question, "--json", str(json_file), *bench.server(*flags))
    assert ran.returncode == 0, ran.stderr
    result: Json = json.loads(json_file.read_text())
    assert list(schema_faults(result)) == []
    found, trials = result["baselines"], {trial["id"]: trial for trial in result["trials"]}
    limited, plain = trials[found["equal_limits"]], trials[found["own_capacity"]]
    assert limited["lever"] == "--max-running-requests 4"
    assert limited["effective"]["max_running_requests"] == 4
    assert plain["effective"]["max_running_requests"] == 6
    assert {trial["requested"]["num_steps"] for trial in (limited, plain)} == {0}
    assert all(result["recommendation"]["speedup_equal_limits"].values())
    assert "That one runs 4 at once, the limit of eagle 2" in " ".join(ran.stdout.split())


def test_calls_of_tools_are_compared_with_offs(bench: Any) -> None:
    tool = {"type": "function", "function": {"name": "note", "parameters": {"required": ["text"]}}}
    lines = (
        {
            "messages": [{"role": "user", "content": f"note {i}"}],
            "tools": [tool],
            "max_tokens": 8 + i % 8,
            "temperature": 0,
        }
        for i in range(400)
    )
    question = bench.question("0,2", "3")
    (bench.folder / "prompts.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    ran = bench.run("tune", *question, "--json", "-", *bench.server())
    assert ran.returncode == 0, ran.stderr
    result: Json = json.loads(ran.stdout)
    (arm,) = result["lossless"]["arms"]
    valid, made = arm["tool_calls"]
    assert valid == made == arm["answers"] > 0
    assert arm["tool_calls_off"] == arm["tool_calls"]
    assert arm["differing"] == 0
    with closing(sqlite3.connect(bench.store)) as connection:
        texts = [row[0] for row in connection.execute("SELECT tool_calls FROM request LIMIT 5")]
    assert all(json.loads(text)[0][0] == "note" for text in texts)


def test_json_on_stdout_takes_the_place_of_the_table(bench: Any) -> None:
    ran = bench.run("tune", *bench.question(), "--json", "-", *bench.server())
    assert list(schema_faults(json.loads(ran.stdout))) == []
    shown = bench.run("show", "last", "--json", "-")
    assert shown.stdout == ran.stdout


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_stops_the_server_and_the_study_goes_on_later(bench: Any, number: int, status: int) -> None:
    process = bench.start("tune", *bench.question("0..2", "6"), *bench.server())
    read_until(process, "eagle 1 at 1:")
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=30)
    assert process.returncode == status
    assert bench.servers() == []
    (study,) = study_ids(bench)
    assert f"spectune tune --resume {study}" in stderr
    assert "Traceback" not in stderr
    assert stdout == ""

    resumed = bench.run("tune", "--resume", study, "--json", "-")
    assert resumed.returncode == 0, resumed.stderr
    result: Json = json.loads(resumed.stdout)
    assert [trial["requested"]["num_steps"] for trial in result["trials"]] == [0, 1, 2]
    assert result["unfinished"] == []
    assert ", 1 of them done before, at 1 and 4 concurrent requests" in resumed.stderr
    assert "off at" not in resumed.stderr  # finished before, not repeated
    assert "eagle 1 at 1:" not in resumed.stderr  # measured before the signal
    assert "eagle 1 at 4:" in resumed.stderr
    assert result["cost"]["launches"] == 4
    assert bench.servers() == []


def test_a_killed_tuner_leaves_no_server_and_loses_no_measured_level(bench: Any) -> None:
    process = bench.start("tune", *bench.question("0..1", "5"), *bench.server())
    read_until(process, "off at 4:")
    process.kill()
    process.communicate()
    assert bench.wait_gone()
    shown: Json = json.loads(bench.run("show", "last", "--json", "-").stdout)
    kept = [trial["levels"] for trial in (*shown["trials"], *shown["unfinished"])]
    assert [level["concurrency"] for level in kept[0]] == [1, 4]
    resumed = bench.run("tune", "--resume")
    assert resumed.returncode == 0, resumed.stderr
    assert "off at" not in resumed.stderr


def test_a_terminal_that_is_closed_interrupts_the_study(bench: Any) -> None:
    words = ["tune", *bench.question("0..1", "20"), *bench.server()]
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(sys.executable, [sys.executable, "-m", "spectune", *words], bench.environment)
    seen = b""
    while b"off at 1:" not in seen:
        seen += os.read(terminal, 4096)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 128 + signal.SIGHUP
    assert bench.servers() == []
    assert "interrupted" in bench.run("show").stdout


def test_a_signal_while_a_server_is_being_stopped_lets_the_stop_end_first(bench: Any) -> None:
    process = bench.start("tune", *bench.question("0"), *bench.server("--sim-fault", "ignore-sigterm"))
    read_until(process, "off at 4:")
    assert wait_until(lambda: "SIGTERM came" in server_logs(bench), within_s=60)  # it has been asked to end
    assert is_listening(bench.port)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=40)
    assert bench.servers() == []
    assert process.returncode == 130
    assert "the server is stopped" in stderr


def test_a_second_signal_does_not_disturb_the_clean_up(bench: Any) -> None:
    process = bench.start(
        "tune", *bench.question("0..1", "5"), *bench.server("--sim-fault", "ignore-sigterm")
    )
    read_until(process, "off at 1:")
    process.send_signal(signal.SIGINT)
    read_until(process, "stopping the server")
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert bench.servers() == []


def test_two_studies_write_to_one_store_at_once(bench: Any) -> None:
    first = bench.start("tune", *bench.question(), "--json", "-", *bench.server())
    other = type(bench)(bench.folder)
    second = other.start("tune", *other.question(), "--json", "-", *other.server())
    results = [json.loads(process.communicate(timeout=100)[0]) for process in (first, second)]
    assert [process.returncode for process in (first, second)] == [0, 0]
    assert sorted(result["study_id"] for result in results) == sorted(study_ids(bench))


def test_one_study_is_worked_on_by_one_process(bench: Any) -> None:
    process = bench.start("tune", *bench.question("0..1", "90"), *bench.server())
    read_until(process, "off at 1:")
    (study,) = study_ids(bench)
    assert "running" in bench.run("show").stdout
    second = bench.run("tune", "--resume", study)
    assert (second.returncode, second.stdout) == (1, "")
    assert "one process at a time" in second.stderr
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert "interrupted" in bench.run("show").stdout


def test_a_setting_that_dies_is_a_result_and_the_study_goes_on(bench: Any) -> None:
    ran = bench.run(
        "tune", *bench.question("0..2"), "--json", "-", *bench.server("--sim-fault", "die-at-start@1")
    )
    assert ran.returncode == 0, ran.stderr
    result: Json = json.loads(ran.stdout)
    assert [trial["outcome"] for trial in result["trials"]] == ["completed", "failed", "completed"]
    assert "cannot load the draft" in bench.run("show", "last").stdout


def test_an_engine_that_never_starts_is_one_clear_message(bench: Any) -> None:
    ran = bench.run("tune", *bench.question("0..4"), *bench.server("--sim-fault", "die-at-start"))
    assert ran.returncode == 1
    assert "Settings without a result" in ran.stdout
    assert "none was: off failed: crash at start" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert bench.run("show", "last").stdout == ran.stdout


def test_a_secret_of_the_serve_command_is_stored_nowhere(bench: Any) -> None:
    process = bench.start("tune", *bench.question("0..1", "5"), *bench.server("--api-key", "s3cret-key"))
    read_until(process, "off at 1:")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    kept = b"".join(path.read_bytes() for path in (bench.folder / "data").rglob("*") if path.is_file())
    assert b"s3cret-key" not in kept
    refused = bench.run("tune", "--resume")
    assert refused.returncode == 2
    assert "give the whole command again after --" in refused.stderr
    resumed = bench.run("tune", "--resume", *bench.server("--api-key", "s3cret-key"))
    assert resumed.returncode == 0, resumed.stderr
    assert "s3cret-key" not in resumed.stdout + resumed.stderr


def test_resuming_with_another_command_is_refused(bench: Any) -> None:
    process = bench.start("tune", *bench.question("0..1", "5"), *bench.server())
    read_until(process, "off at 1:")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    refused = bench.run("tune", "--resume", *bench.server("--max-running-requests", "3"))
    assert refused.returncode == 2
    assert "the one it began with" in refused.stderr


def test_a_finished_study_is_not_resumed(finished: Any) -> None:
    (study,) = study_ids(finished)
    refused = finished.run("tune", "--resume", study)
    assert refused.returncode == 2
    assert "it is finished" in refused.stderr
    assert finished.run("tune", "--resume").returncode == 2


def test_the_plan_is_printed_and_nothing_is_started(bench: Any) -> None:
    ran = bench.run("tune", *bench.question("0..3"), "--dry-run", *bench.server())
    assert ran.returncode == 0
    assert "eagle 3" in ran.stdout
    assert max(map(len, ran.stdout.splitlines())) <= 100
    assert "4 launches" in ran.stdout
    assert not bench.store.exists()
    plan = json.loads(
        bench.run("tune", *bench.question("0..3"), "--dry-run", "--json", "-", *bench.server()).stdout
    )
    assert plan["launches"] == {"min": 4, "max": 4}


def test_the_output_may_be_closed_early(finished: Any) -> None:
    process = finished.start("show", "last")
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == ""
    assert process.wait(30) == 141
