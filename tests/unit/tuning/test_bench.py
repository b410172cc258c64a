from dataclasses import dataclass
from pathlib import Path

import pytest

from spectune.clock import SystemClock
from spectune.domain.command import HttpRequest
from spectune.domain.spec_config import OFF
from spectune.engines.embedded import EmbeddedAdapter
from spectune.errors import ProtocolError
from spectune.loadgen.stream_client import LoadTarget
from spectune.testing.simulation import running_simulation, simulated_command, simulated_pool
from spectune.tuning.bench import Bench, ask, read_effective
from spectune.workloads.load_plan import LevelSize, plan_levels


def test_a_level_counts_only_what_happened_in_it(tmp_path: Path) -> None:
    (plan,) = plan_levels(
        simulated_pool(), [LevelSize(concurrency=2, num_requests=6, num_warmup=4, spread_s=0.0)]
    )
    with running_simulation(tmp_path) as server:
        bench = Bench(
            adapter=EmbeddedAdapter(),
            config=OFF,
            server=server,
            target=LoadTarget(endpoint=server.endpoint, model=""),
            clock=SystemClock(),
            hang_s=5.0,
        )
        level = bench.measure(plan, attempt=1, request_done=lambda: None)
    assert level.attempt == 1
    assert [record.index for record in level.records] == list(range(6))
    assert level.counters is not None
    assert level.counters.generated_tokens == 6 * 24
    assert level.counters.undrafted_steps == 6 * 23
    assert level.foreign_cpu_share is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiling(EmbeddedAdapter):
    """Tells a growing number of compilations, one reading after the other."""

    readings: list[int]

    def compilations(self, log: str) -> int:
        del log
        return self.readings.pop(0) if len(self.readings) > 1 else self.readings[0]


@pytest.mark.parametrize(
    ("readings", "warmups"), [([5], 1), ([5, 6, 6], 2), ([5, 6, 7, 7], 3), ([1, 2, 3, 4, 5, 6, 7], 4)]
)
def test_the_warm_up_goes_on_while_something_is_compiled(
    tmp_path: Path, readings: list[int], warmups: int
) -> None:
    (plan,) = plan_levels(
        simulated_pool(), [LevelSize(concurrency=2, num_requests=6, num_warmup=2, spread_s=0.0)]
    )
    with running_simulation(tmp_path) as server:
        bench = Bench(
            adapter=Compiling(readings=readings),
            config=OFF,
            server=server,
            target=LoadTarget(endpoint=server.endpoint, model=""),
            clock=SystemClock(),
            hang_s=5.0,
        )
        start = bench.counters()
        level = bench.measure(plan, attempt=0, request_done=lambda: None)
        end = bench.counters()
    assert start is not None
    assert end is not None
    assert level.counters is not None
    assert level.counters.generated_tokens == 6 * 24
    sent = sum(request.max_tokens for request in plan.warmup)
    assert end.since(start).generated_tokens == 6 * 24 + warmups * sent


def test_another_status_than_200_is_told_with_its_words(tmp_path: Path) -> None:
    with running_simulation(tmp_path, "--sim-fault", "errors-after:1") as server:
        request = HttpRequest(method="POST", path="/v1/completions", body='{"prompt": "x"}')
        with pytest.raises(ProtocolError, match=r"500.*simulated"):
            ask(server, request)


def test_settings_are_read_from_the_running_server(tmp_path: Path) -> None:
    flags = ("--speculative-algorithm", "NGRAM", "--speculative-num-draft-tokens", "4")
    with running_simulation(tmp_path, *flags, "--max-running-requests", "9") as server:
        effective = read_effective(EmbeddedAdapter(), simulated_command(*flags), server)
    assert effective.config.label == "ngram 3"
    assert effective.max_running_requests == 6
