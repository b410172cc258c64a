import json

import pytest

from spectune.domain.command import Command
from spectune.domain.spec_config import OFF, SpecConfig
from spectune.engines.adapter import ServerTraces
from spectune.engines.embedded import EmbeddedAdapter
from spectune.errors import ConfigError, ProtocolError

ADAPTER = EmbeddedAdapter()
SERVE = ("spectune", "serve")


def command(*flags: str) -> Command:
    return Command(argv=(*SERVE, *flags))


@pytest.mark.parametrize(
    "argv",
    [
        ("spectune", "serve"),
        ("/opt/venv/bin/spectune", "serve", "--port", "1"),
        ("python3", "-m", "spectune", "serve"),
        ("env", "A=1", "numactl", "-N0", "spectune", "serve"),
        ("python", "-m", "spectune.testing.simulated_server"),
    ],
)
def test_its_commands_are_recognised(argv: tuple[str, ...]) -> None:
    assert ADAPTER.recognises(Command(argv=argv))


@pytest.mark.parametrize("argv", [("vllm", "serve"), ("spectune", "tune"), ("python", "-m", "spectune"), ()])
def test_other_commands_are_not(argv: tuple[str, ...]) -> None:
    assert not ADAPTER.recognises(Command(argv=argv))


def test_without_an_algorithm_speculation_is_off() -> None:
    assert ADAPTER.base_config(command("--speculative-num-steps", "3")) == OFF


@pytest.mark.parametrize("name", ["EAGLE", "eagle", "EAGLE3"])
def test_an_algorithm_may_be_spelled_as_the_engine_takes_it(name: str) -> None:
    assert ADAPTER.base_config(command("--speculative-algorithm", name)).method == "eagle"


def test_a_schedule_gives_way_to_the_setting_under_test() -> None:
    base = command("--speculative-algorithm", "EAGLE", "--speculative-schedule", "1-4:5,5-:0")
    assert ADAPTER.command_for(base, OFF).argv == SERVE


def test_either_number_of_a_chain_sets_the_other() -> None:
    by_steps = command("--speculative-algorithm", "EAGLE", "--speculative-num-steps", "5")
    by_tokens = command("--speculative-algorithm=NGRAM", "--speculative-num-draft-tokens=6")
    assert ADAPTER.base_config(by_steps) == SpecConfig.chain("eagle", 5)
    assert ADAPTER.base_config(by_tokens) == SpecConfig.chain("ngram", 5)


@pytest.mark.parametrize(
    "flags",
    [
        ("--speculative-algorithm", "MEDUSA"),
        ("--speculative-algorithm", "EAGLE", "--speculative-num-steps", "x"),
        ("--speculative-algorithm", "EAGLE", "--speculative-num-steps", "0"),
        ("--speculative-algorithm",),
    ],
)
def test_a_malformed_setting_is_refused(flags: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError):
        ADAPTER.base_config(command(*flags))


def test_only_speculative_flags_change() -> None:
    base = command("--port", "7", "--speculative-algorithm", "EAGLE", "--x=a b", "--speculative-num-steps=2")
    changed = ADAPTER.command_for(base, SpecConfig.chain("draft_model", 4))
    assert changed.argv[:5] == (*SERVE, "--port", "7", "--x=a b")
    assert ADAPTER.base_config(changed) == SpecConfig.chain("draft_model", 4)
    assert ADAPTER.command_for(base, OFF).argv == (*SERVE, "--port", "7", "--x=a b")


def test_a_tree_survives_the_way_into_flags_and_back() -> None:
    tree = SpecConfig(method="eagle", num_steps=3, topk=2, num_draft_tokens=6)
    assert ADAPTER.base_config(ADAPTER.command_for(command(), tree)) == tree


def test_impossible_settings_are_said_to_be() -> None:
    assert not ADAPTER.check(command(), SpecConfig.chain("eagle", 3))
    assert "medusa" in ADAPTER.check(command(), SpecConfig.chain("medusa", 3))
    assert "topk" in ADAPTER.check(
        command(), SpecConfig(method="ngram", num_steps=2, topk=2, num_draft_tokens=4)
    )


def test_the_endpoint_follows_the_flags() -> None:
    endpoint = ADAPTER.endpoint(command("--host", "0.0.0.0", "--port=81", "--api-key", "k"))
    assert (endpoint.base_url, endpoint.api_key) == ("http://127.0.0.1:81", "k")
    assert ADAPTER.endpoint(command()).base_url == "http://127.0.0.1:30000"
    with pytest.raises(ConfigError, match="--port"):
        ADAPTER.endpoint(command("--port", "99999"))


INFO: dict[str, object] = {
    "speculative_algorithm": "EAGLE",
    "speculative_num_steps": 3,
    "speculative_eagle_topk": 1,
    "speculative_num_draft_tokens": 4,
    "max_running_requests": 20,
    "max_total_num_tokens": 4096,
    "version": "1.2",
    "model_path": "m",
}


def test_settings_are_read_back() -> None:
    effective = ADAPTER.read_settings(command(), (json.dumps(INFO),), "")
    assert effective.config == SpecConfig.chain("eagle", 3)
    assert (effective.max_running_requests, effective.max_total_num_tokens) == (20, 4096)
    assert (
        ADAPTER.read_settings(command(), (json.dumps(INFO | {"speculative_algorithm": None}),), "").config
        == OFF
    )


@pytest.mark.parametrize(
    "change",
    [
        {"speculative_algorithm": "MAGIC"},
        {"speculative_num_steps": None},
        {"speculative_num_steps": "3"},
        {"speculative_num_draft_tokens": 9},
        {"max_running_requests": [1]},
    ],
)
def test_settings_that_make_no_sense_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(ProtocolError, match="/server_info"):
        ADAPTER.read_settings(command(), (json.dumps(INFO | change),), "")


def test_settings_without_an_algorithm_key_are_not_taken_for_off() -> None:
    with pytest.raises(ProtocolError, match="speculative_algorithm"):
        ADAPTER.read_settings(command(), ('{"version": "1"}',), "")


METRICS = """# TYPE spectune:verify_steps_total counter
spectune:verify_steps_total 10
spectune:undrafted_steps_total 1
spectune:drafted_tokens_total 30
spectune:accepted_tokens_total 21
spectune:generated_tokens_total 33
spectune:accepted_tokens_per_position_total{position="1"} 7
spectune:accepted_tokens_per_position_total{position="0"} 9
spectune:accepted_tokens_per_position_total{position="2"} 5
"""


def test_counters_are_read_by_position() -> None:
    counters = ADAPTER.read_counters(METRICS, OFF)
    assert counters is not None
    assert counters.accepted_per_position == (9, 7, 5)
    assert (counters.verify_steps, counters.undrafted_steps, counters.generated_tokens) == (10, 1, 33)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("verify_steps_total 10", "verify_steps_total NaN"),
        ("verify_steps_total 10", "verify_steps_total 1.5"),
        ("verify_steps_total 10", "verify_steps_total -1"),
        ("spectune:drafted", "spectune:drifted"),
        ('position="2"', 'position="x"'),
    ],
)
def test_counters_that_make_no_sense_are_refused(old: str, new: str) -> None:
    with pytest.raises(ProtocolError, match="/metrics"):
        ADAPTER.read_counters(METRICS.replace(old, new), OFF)


def test_without_memory_its_own_flags_are_named() -> None:
    log = "MemoryError: out of memory: cannot allocate the KV cache\n"
    found = ADAPTER.diagnose(ServerTraces(exit_status=1, log_tail=log, was_ready=False))
    assert found.kind == "out_of_memory"
    assert "--kv-cache-mib" in found.next_step
