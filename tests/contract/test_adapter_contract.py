"""What every engine dialect must keep. A new dialect adds a line to `CASES`."""

from dataclasses import dataclass

import pytest

from spectune.domain.command import Command
from spectune.domain.spec_config import OFF, SpecConfig
from spectune.engines.adapter import EngineAdapter, ServerTraces
from spectune.engines.embedded import EmbeddedAdapter
from spectune.errors import ProtocolError

GARBAGE = ("", "<html>busy</html>", "[]", "null", '{"a": ', "\x00\x01")


@dataclass(frozen=True, slots=True)
class Case:
    adapter: EngineAdapter
    command: Command
    configs: tuple[SpecConfig, ...]


CASES = (
    Case(
        adapter=EmbeddedAdapter(),
        command=Command(
            argv=("spectune", "serve", "--port=31000", "--api-key", "k", "--speculative-algorithm", "EAGLE"),
            env=(("A", "1"),),
        ),
        configs=(
            OFF,
            SpecConfig.chain("eagle", 1),
            SpecConfig.chain("draft_model", 8),
            SpecConfig.chain("ngram", 3),
            SpecConfig(method="eagle", num_steps=3, topk=4, num_draft_tokens=10),
        ),
    ),
)
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.adapter.name)


@every_case
def test_a_setting_survives_the_way_into_the_command_and_back(case: Case) -> None:
    for config in case.configs:
        assert case.adapter.check(config) == ""
        changed = case.adapter.command_for(case.command, config)
        assert case.adapter.base_config(changed) == config
        assert case.adapter.recognises(changed)
        assert changed.env == case.command.env
        assert case.adapter.endpoint(changed) == case.adapter.endpoint(case.command)


@every_case
def test_changing_twice_is_changing_once(case: Case) -> None:
    first, last = case.configs[1], case.configs[-1]
    twice = case.adapter.command_for(case.adapter.command_for(case.command, first), last)
    assert twice == case.adapter.command_for(case.command, last)


@every_case
def test_launch_arguments_are_what_the_command_gets(case: Case) -> None:
    assert case.adapter.launch_args(OFF) == ()
    for config in case.configs:
        arguments = case.adapter.launch_args(config)
        changed = case.adapter.command_for(case.command, config)
        assert not arguments or changed.argv[-len(arguments) :] == arguments


@every_case
@pytest.mark.parametrize("garbage", GARBAGE)
def test_unreadable_answers_are_protocol_errors(case: Case, garbage: str) -> None:
    adapter = case.adapter
    with pytest.raises(ProtocolError):
        adapter.read_generation(garbage)
    with pytest.raises(ProtocolError):
        adapter.read_settings((garbage,) * len(adapter.settings_requests()), "")
    with pytest.raises(ProtocolError):
        adapter.read_counters(garbage)


@every_case
@pytest.mark.parametrize("exit_status", [None, 0, 1, 2, 137, -9, -11])
@pytest.mark.parametrize("was_ready", [True, False])
def test_every_failure_has_a_cause_and_a_next_step(
    case: Case,
    exit_status: int | None,
    was_ready: bool,
) -> None:
    found = case.adapter.diagnose(ServerTraces(exit_status=exit_status, log_tail="", was_ready=was_ready))
    assert found.cause
    assert found.next_step
