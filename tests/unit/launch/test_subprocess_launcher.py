import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from spectune.clock import SystemClock
from spectune.domain.command import Command
from spectune.domain.endpoint import Endpoint
from spectune.errors import LaunchError, PortInUse
from spectune.launch.session import session_members
from spectune.launch.subprocess_launcher import SubprocessLauncher, SubprocessServer
from spectune.testing.recording import free_port

STUBBORN = "trap '' TERM; (trap '' TERM; sleep 600) & echo up; wait; wait"


def start(
    folder: Path, *argv: str, env: tuple[tuple[str, str], ...] = (), drain_s: float = 0.3
) -> SubprocessServer:
    launcher = SubprocessLauncher(folder, SystemClock(), drain_s=drain_s)
    endpoint = Endpoint(host="127.0.0.1", port=free_port())
    return launcher.start(Command(argv=argv, env=env), endpoint, name="it")


def wait_for(condition: object, *, deadline_s: float = 10.0) -> bool:
    assert callable(condition)
    give_up_s = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > give_up_s:
            return False
        time.sleep(0.02)
    return True


def test_output_and_environment_reach_the_log(tmp_path: Path) -> None:
    server = start(tmp_path, "sh", "-c", 'echo "$ADDED $PATH"; echo err >&2', env=(("ADDED", "yes"),))
    assert wait_for(lambda: server.exit_status() is not None)
    server.stop()
    assert server.log_text() == f"yes {os.environ['PATH']}\nerr\n"
    assert server.log_path == str(tmp_path / "it.log")


@pytest.mark.parametrize(("script", "status"), [("exit 3", 3), ("kill -s SEGV $$", -11)])
def test_the_exit_status_is_told_before_and_after_the_stop(tmp_path: Path, script: str, status: int) -> None:
    server = start(tmp_path, "sh", "-c", script)
    assert wait_for(lambda: server.exit_status() is not None)
    assert server.exit_status() == status
    server.stop()
    assert server.exit_status() == status


def test_a_stop_leaves_nothing_of_the_session_even_when_sigterm_is_ignored(tmp_path: Path) -> None:
    server = start(tmp_path, "sh", "-c", STUBBORN)
    assert wait_for(lambda: "up" in server.log_text())
    assert len(server.process_ids()) == 2
    session = os.getsid(server.process_ids()[0])
    server.stop()
    server.stop()  # again, without harm
    assert server.process_ids() == ()
    assert session_members(session) == ()


def test_children_left_behind_by_a_dead_server_are_stopped_too(tmp_path: Path) -> None:
    server = start(tmp_path, "sh", "-c", "sleep 600 & echo up")
    assert wait_for(lambda: server.exit_status() == 0)
    (orphan,) = server.process_ids()
    session = os.getsid(orphan)
    server.stop()
    assert session_members(session) == ()


def test_a_taken_port_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        endpoint = Endpoint(host="127.0.0.1", port=listener.getsockname()[1])
        with pytest.raises(PortInUse):
            SubprocessLauncher(tmp_path, SystemClock()).start(Command(argv=("true",)), endpoint, name="it")
    assert not (tmp_path / "it.log").exists()


def test_a_program_that_is_not_there_is_told_by_name(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match="no-such-program"):
        start(tmp_path, "no-such-program")


def test_an_unwritable_log_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LaunchError, match="log file"):
        start(tmp_path / "file", "true")


TUNER = """
import sys, time
from pathlib import Path
from spectune.clock import SystemClock
from spectune.domain.command import Command
from spectune.domain.endpoint import Endpoint
from spectune.launch.subprocess_launcher import SubprocessLauncher
launcher = SubprocessLauncher(Path(sys.argv[1]), SystemClock())
server = launcher.start(
    Command(argv=("sh", "-c", sys.argv[3])), Endpoint(host="127.0.0.1", port=int(sys.argv[2])), name="it"
)
while len(server.process_ids()) < 2:
    time.sleep(0.02)
print(server.process_ids()[0], flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("script", ["sleep 600 & sleep 601", STUBBORN])
def test_nothing_outlives_a_tuner_that_is_killed(tmp_path: Path, script: str) -> None:
    tuner = subprocess.Popen(
        [sys.executable, "-c", TUNER, str(tmp_path), str(free_port()), script],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert tuner.stdout is not None
    try:
        session = os.getsid(int(tuner.stdout.readline()))
        assert wait_for(lambda: len(session_members(session)) >= 2)
    finally:
        tuner.send_signal(signal.SIGKILL)
        tuner.wait()
        tuner.stdout.close()
    assert wait_for(lambda: not session_members(session), deadline_s=15)
