from dataclasses import replace
from pathlib import Path

import pytest

from spectune.clock import SystemClock
from spectune.domain.command import Command
from spectune.domain.schedule import Schedule
from spectune.domain.spec_config import OFF, SpecConfig
from spectune.domain.trial import EffectiveSettings, ReportedKey
from spectune.engines.embedded import EmbeddedAdapter
from spectune.errors import EngineNotReady, LaunchError
from spectune.testing.simulation import running_simulation
from spectune.tuning.service_proof import (
    describe,
    look,
    prove_applied,
    prove_same,
    read_back,
    write_down,
)

CHAIN = ("--speculative-algorithm", "EAGLE", "--speculative-num-steps", "2")
ADAPTER, CLOCK = EmbeddedAdapter(), SystemClock()
COMMAND = Command(argv=("spectune", "serve", *CHAIN))


def test_what_is_written_down_is_read_back() -> None:
    settings = EffectiveSettings(
        config=SpecConfig.chain("eagle", 3), max_running_requests=48, max_total_num_tokens=1000,
        engine_version="1", model="m",
    )  # fmt: skip
    assert read_back(write_down(settings)) == settings
    assert "48 running requests" in describe(settings)
    scheduled = replace(settings, schedule=Schedule.of((1, 4, 3), (5, None, 0)))
    assert read_back(write_down(scheduled)) == scheduled
    assert "schedule 1-4:3,5-:0" in describe(scheduled)


def test_the_same_server_is_proven_and_another_is_not(tmp_path: Path) -> None:
    with running_simulation(tmp_path, *CHAIN) as server:
        before = look(ADAPTER, COMMAND, server, CLOCK)
        assert "as before: " in prove_same(ADAPTER, COMMAND, server, CLOCK, write_down(before))
        for differs in (
            replace(before, config=OFF),
            replace(before, max_running_requests=7),
            replace(before, schedule=Schedule.of((1, 4, 2), (5, None, 0))),
            replace(before, reported=(ReportedKey(name="dtype", value="fp8", kind="covariate"),)),
            replace(before, max_total_num_tokens=10 * (before.max_total_num_tokens or 1)),
        ):
            with pytest.raises(LaunchError, match="runs as before"):
                prove_same(ADAPTER, COMMAND, server, CLOCK, write_down(differs))


def test_an_applied_setting_must_run(tmp_path: Path) -> None:
    with running_simulation(tmp_path, *CHAIN) as server:
        assert "in force" in prove_applied(ADAPTER, COMMAND, server, CLOCK, SpecConfig.chain("eagle", 2))
        with pytest.raises(EngineNotReady, match="must hold"):
            prove_applied(ADAPTER, COMMAND, server, CLOCK, OFF)


def test_a_fixed_setting_is_not_proven_by_a_schedule_nor_the_other_way_round(tmp_path: Path) -> None:
    schedule = Schedule.of((1, 4, 2), (5, None, 0))
    chain = SpecConfig.chain("eagle", 2)
    with (
        running_simulation(tmp_path, *CHAIN) as server,
        pytest.raises(EngineNotReady, match=r"`it runs schedule 1-4:2,5-:0` must hold, it runs none"),
    ):
        prove_applied(ADAPTER, COMMAND, server, CLOCK, chain, schedule=schedule)
