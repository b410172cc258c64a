import sys

import pytest

from spectune.domain.endpoint import Endpoint
from spectune.errors import HostUnreachable, LaunchError
from spectune.launch.local_host import LocalHost

HOSTILE = ["a b", "a;b", "$(false)", "`x`", "'", '"', "a\nb", "--", "*", ""]


def test_words_arrive_as_they_are() -> None:
    script = "import sys; sys.stdout.write(repr(sys.argv[1:]) + sys.stdin.read()); sys.exit(3)"
    answer = LocalHost().run((sys.executable, "-c", script, *HOSTILE), stdin="in")
    assert (answer.status, answer.stdout) == (3, f"{HOSTILE!r}in")


def test_a_prefix_stands_before_every_command() -> None:
    assert LocalHost(prefix=("env", "A=1")).run(("sh", "-c", "echo $A")).stdout == "1\n"


def test_the_last_line_of_stderr_is_the_complaint() -> None:
    answer = LocalHost().run(("sh", "-c", "echo first >&2; echo last >&2; exit 1"))
    assert answer.complaint == "last"
    assert LocalHost().run(("sh", "-c", "exit 7")).complaint == "exit status 7"


def test_what_cannot_be_run_or_does_not_end_is_told() -> None:
    with pytest.raises(LaunchError, match="no-such-program"):
        LocalHost().run(("no-such-program",))
    with pytest.raises(HostUnreachable, match=r"0\.1 s"):
        LocalHost().run(("sleep", "60"), timeout_s=0.1)


def test_its_ports_are_ours() -> None:
    endpoint = Endpoint(host="127.0.0.1", port=1)
    assert LocalHost().reach(endpoint) is endpoint
