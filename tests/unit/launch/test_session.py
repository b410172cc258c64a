import signal
import subprocess
import time

from spectune.launch.session import session_members, signal_session


def test_members_are_found_signalled_and_zombies_left_out() -> None:
    leader = subprocess.Popen(
        ["sh", "-c", "sleep 60 & echo started; wait"], stdout=subprocess.PIPE, start_new_session=True
    )
    try:
        assert leader.stdout is not None
        leader.stdout.readline()
        assert len(session_members(leader.pid)) == 2
        signal_session(leader.pid, signal.SIGKILL)
        leader.stdout.read()  # ends when both are gone
        leader.stdout.close()
        deadline = time.monotonic() + 5  # its files are closed a moment before a process is a zombie
        while session_members(leader.pid) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert session_members(leader.pid) == ()  # the leader is not reaped yet
    finally:
        leader.kill()
        leader.wait()
