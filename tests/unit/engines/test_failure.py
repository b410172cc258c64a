import pytest

from spectune.domain.trial import FailureKind
from spectune.engines.adapter import ServerTraces
from spectune.engines.failure import diagnose


def traces(exit_status: int | None, log: str = "", *, was_ready: bool = False) -> ServerTraces:
    return ServerTraces(exit_status=exit_status, log_tail=log, was_ready=was_ready)


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (traces(1, "cannot listen on 127.0.0.1:1: Address already in use"), "port_in_use"),
        (traces(1, "loading\nMemoryError: out of memory"), "out_of_memory"),
        (traces(2, "serve: error: argument --threads: invalid int value"), "bad_argument"),
        (traces(2, "num_steps must be >= 1"), "bad_argument"),
        (traces(2, "oops", was_ready=True), "crash_under_load"),
        (traces(3, "RuntimeError: x"), "crash_at_start"),
        (traces(-11, "", was_ready=True), "crash_under_load"),
        (traces(-9, "", was_ready=True), "out_of_memory"),
        (traces(None, "running", was_ready=True), "hang"),
        (traces(None, "running"), "not_ready"),
    ],
)
def test_failures_are_told_by_exit_and_log(given: ServerTraces, kind: FailureKind) -> None:
    assert diagnose(given).kind == kind


def test_the_last_sign_in_the_log_decides() -> None:
    log = "warning: address already in use, trying another\ntorch: CUDA out of memory"
    assert diagnose(traces(1, log)).kind == "out_of_memory"


def test_a_crash_without_a_sign_shows_the_last_line() -> None:
    assert "KeyError: 'x'" in diagnose(traces(3, "Traceback\nKeyError: 'x'\n\n")).cause
