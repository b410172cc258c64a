import time

from spectune.clock import SystemClock


def test_the_system_clock_moves_on_and_sleeps_at_least_as_long_as_told() -> None:
    clock = SystemClock()
    before = clock.monotonic_s()
    clock.sleep(0.01)
    assert clock.monotonic_s() - before >= 0.01
    assert abs(clock.unix_s() - time.time()) < 60
