from pathlib import Path

import pytest

from spectune.clock import SystemClock
from spectune.domain.spec_config import OFF
from spectune.engines.embedded import EmbeddedAdapter
from spectune.loadgen.stream_client import LoadTarget
from spectune.testing.simulated_engine import SimulatedEngine
from spectune.testing.simulation import running_simulation, simulated_pool
from spectune.tuning.bench import Bench
from spectune.tuning.pilot import num_pilot_prompts, run_pilot


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


@pytest.mark.parametrize(("num_prompts", "expected"), [(2000, 57), (80, 10), (3, 1)])
def test_a_small_pool_is_not_used_up_by_the_pilot(num_prompts: int, expected: int) -> None:
    pool = simulated_pool(num_prompts=num_prompts)
    assert num_pilot_prompts(pool, (1, 4, 16, 32)) == expected
