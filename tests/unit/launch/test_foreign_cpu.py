import os
import subprocess
import sys
import time

import pytest

from spectune.launch.foreign_cpu import CpuReading, foreign_share, read_cpu

BURNT_S = 0.5  # CPU seconds, however long they take
BURN = f"import time\nwhile time.process_time() < {BURNT_S}: pass"


def readings_around_a_burning_child(*, is_ours: bool) -> tuple[CpuReading, CpuReading]:
    roots = (os.getpid(),) if is_ours else ()
    before = read_cpu(time.monotonic(), roots)
    subprocess.run([sys.executable, "-c", BURN], check=True)
    after = read_cpu(time.monotonic(), roots)
    assert before is not None
    assert after is not None
    return before, after


def test_a_busy_process_that_is_not_ours_is_seen() -> None:
    before, after = readings_around_a_burning_child(is_ours=False)
    share = foreign_share(before, after)
    assert share is not None
    assert share * (after.at_s - before.at_s) > 0.8 * BURNT_S


def test_our_own_children_count_as_ours_also_when_they_have_ended() -> None:
    before, after = readings_around_a_burning_child(is_ours=True)
    assert after.ours_s - before.ours_s > 0.9 * BURNT_S


@pytest.mark.parametrize(("busy_s", "ours_s", "share"), [(3.0, 2.0, 0.5), (1.0, 2.0, 0.0)])
def test_the_share_is_what_is_left_of_busy_time(busy_s: float, ours_s: float, share: float) -> None:
    before = CpuReading(at_s=10, busy_s=100, ours_s=50)
    after = CpuReading(at_s=12, busy_s=100 + busy_s, ours_s=50 + ours_s)
    assert foreign_share(before, after) == share


def test_without_readings_the_share_is_unknown() -> None:
    assert foreign_share(None, CpuReading(at_s=1, busy_s=1, ours_s=1)) is None
