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


def test_a_server_that_warms_up_is_looked_at_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first requests of a real GPU server took 18 times as long as those after them."""
    speeds = iter((100.0, 1800.0, 1900.0, 9e9, 40.0, 41.0, 9e9))
    looks: list[int] = []

    def told(_bench: Bench, _prompts: object, concurrency: int) -> PilotReading:
        looks.append(concurrency)
        return PilotReading(concurrency=concurrency, output_tps=next(speeds), mean_output_tokens=48.0)

    monkeypatch.setattr(pilot, "_look", told)
    pool = simulated_pool(num_prompts=600)
    with running_simulation(tmp_path) as server:
        bench = Bench(
            adapter=EmbeddedAdapter(),
            config=OFF,
            server=server,
            target=LoadTarget(endpoint=server.endpoint, model=""),
            clock=SystemClock(),
            hang_s=5.0,
        )
        (low,) = run_pilot(bench, pool, (4,))
        assert (low.output_tps, looks) == (1900.0, [4, 4, 4])
        next(speeds)
        (low,) = run_pilot(bench, pool, (4,))
    assert (low.output_tps, len(looks)) == (41.0, 5)


@pytest.mark.parametrize(("num_prompts", "expected"), [(2000, 57), (80, 10), (3, 1)])
def test_a_small_pool_is_not_used_up_by_the_pilot(num_prompts: int, expected: int) -> None:
    pool = simulated_pool(num_prompts=num_prompts)
    assert num_pilot_prompts(pool, (1, 4, 16, 32)) == expected
