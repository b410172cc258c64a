from collections.abc import Sequence
from pathlib import Path

import pytest

from spectune.clock import SystemClock
from spectune.domain.spec_config import OFF
from spectune.engines.embedded import EmbeddedAdapter
from spectune.loadgen.stream_client import LoadTarget
from spectune.testing.simulated_engine import SimulatedEngine
from spectune.testing.simulation import running_simulation, simulated_pool
from spectune.tuning import pilot
from spectune.tuning.bench import Bench
from spectune.tuning.pilot import num_pilot_prompts, run_pilot
from spectune.tuning.sizing import PilotReading
from spectune.workloads.prompts import Prompt


def test_readings_at_both_ends_come_near_the_truth(tmp_path: Path) -> None:
    pool = simulated_pool(num_prompts=600, max_tokens=48)
    with running_simulation(tmp_path) as server:
        bench = Bench(
            adapter=EmbeddedAdapter(),
            config=OFF,
            server=server,
            target=LoadTarget(endpoint=server.endpoint, model=""),
            clock=SystemClock(),
            hang_s=5.0,
        )
        low, high = run_pilot(bench, pool, (1, 8, 16))
    assert (low.concurrency, high.concurrency) == (1, 16)
    assert low.mean_output_tokens == high.mean_output_tokens == 48
    for reading in (low, high):
        truth = SimulatedEngine().output_tps(OFF, reading.concurrency)
        assert 0.1 * truth < reading.output_tps <= 1.3 * truth  # a busy machine only slows it


def looks_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, speeds: list[float], used: int
) -> tuple[float, list[str]]:
    """The speed read at 4 requests from looks of these speeds, and the first prompt of each look."""
    seen: list[str] = []

    def told(_bench: Bench, prompts: Sequence[Prompt], concurrency: int) -> tuple[PilotReading, int]:
        seen.append(prompts[0].body)
        speed = speeds[len(seen) - 1]
        return PilotReading(concurrency=concurrency, output_tps=speed, mean_output_tokens=48.0), used

    monkeypatch.setattr(pilot, "_look", told)
    with running_simulation(tmp_path) as server:
        bench = Bench(
            adapter=EmbeddedAdapter(),
            config=OFF,
            server=server,
            target=LoadTarget(endpoint=server.endpoint, model=""),
            clock=SystemClock(),
            hang_s=5.0,
        )
        (reading,) = run_pilot(bench, simulated_pool(num_prompts=600), (4,))
    return reading.output_tps, seen


@pytest.mark.parametrize(
    ("speeds", "used", "found", "num_looks"),
    [
        ([100.0, 1800.0, 1900.0, 9e9], 4, 1900.0, 3),  # as a real GPU's first second: 18 times too slow
        ([40.0, 41.0, 9e9], 4, 41.0, 2),
        ([1.0, 10.0, 100.0, 1000.0, 9e9], 4, 1000.0, 4),
        ([40.0, 9e9], 17, 40.0, 1),  # no four prompts of the twenty are left
    ],
)
def test_a_server_that_warms_up_is_looked_at_again_with_other_prompts(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    speeds: list[float],
    used: int,
    found: float,
    num_looks: int,
) -> None:
    speed, seen = looks_of(tmp_path, monkeypatch, speeds, used)
    assert speed == found
    assert len(seen) == len(set(seen)) == num_looks


@pytest.mark.parametrize(("num_prompts", "expected"), [(2000, 90), (80, 10), (3, 1)])
def test_a_small_pool_is_not_used_up_by_the_pilot(num_prompts: int, expected: int) -> None:
    pool = simulated_pool(num_prompts=num_prompts)
    assert num_pilot_prompts(pool, (1, 4, 16, 32)) == expected
