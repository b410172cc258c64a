"""What every engine dialect must keep. A new dialect adds a line to `CASES`."""

import shlex
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.domain.command import Command
from spectune.domain.schedule import Schedule
from spectune.domain.spec_config import OFF, SpecConfig
from spectune.engines.adapter import EngineAdapter, EngineFacts, ServerTraces
from spectune.engines.embedded import EmbeddedAdapter
from spectune.engines.llamacpp import LlamacppAdapter
from spectune.engines.sglang import SglangAdapter
from spectune.engines.vllm import VllmAdapter
from spectune.errors import ProtocolError

GARBAGE = ("", "<html>busy</html>", "[]", "null", '{"a": ', "\x00\x01")
HOSTILE = ("a b", "a\nb", "; rm -rf x", "$(touch x)", "`x`", "'", '"', "--", "&&", "\\", "é", "a=b")


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
    Case(
        adapter=SglangAdapter(),
        command=Command(
            argv=(
                "python", "-m", "sglang.launch_server", "--model-path", "m", "--port", "31000", "--api-key=k",
                "--speculative-algorithm=EAGLE3", "--speculative-draft-model-path", "d",
            ),
            env=(("A", "1"),),
        ),
        configs=(
            OFF,
            SpecConfig.chain("eagle3", 1),
            SpecConfig.chain("eagle", 8),
            SpecConfig.chain("ngram", 3),
            SpecConfig(method="eagle3", num_steps=3, topk=4, num_draft_tokens=10),
        ),
    ),
    Case(
        adapter=VllmAdapter(),
        command=Command(
            argv=(
                "vllm", "serve", "m", "--port=31000", "--api-key", "k",
                "--speculative-config", '{"method": "eagle3", "model": "d e", "num_speculative_tokens": 2}',
            ),
            env=(("A", "1"),),
        ),
        configs=(
            OFF,
            SpecConfig.chain("eagle3", 1),
            SpecConfig.chain("ngram", 3),
            SpecConfig.chain("eagle3", 8),
        ),
    ),
    Case(
        adapter=LlamacppAdapter(),
        command=Command(
            argv=("llama-server", "-m", "m.gguf", "--port", "31000", "--api-key", "k", "-md", "d.gguf"),
            env=(("A", "1"),),
        ),
        configs=(
            OFF,
            SpecConfig.chain("draft_model", 1),
            SpecConfig.chain("ngram", 3),
            SpecConfig.chain("ngram-mod", 5),
            SpecConfig.chain("draft_model", 8),
        ),
    ),
)  # fmt: skip
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.adapter.name)


@every_case
def test_a_setting_survives_the_way_into_the_command_and_back(case: Case) -> None:
    for config in case.configs:
        assert case.adapter.check(case.command, config) == ""
        changed = case.adapter.command_for(case.command, config)
        assert case.adapter.base_config(changed) == config
        assert case.adapter.recognises(changed)
        assert changed.env == case.command.env
        assert case.adapter.endpoint(changed) == case.adapter.endpoint(case.command)
        assert (case.adapter.endpoint(changed).port, case.adapter.endpoint(changed).api_key) == (31000, "k")


@every_case
def test_only_one_dialect_recognises_a_command(case: Case) -> None:
    assert [other.adapter.name for other in CASES if other.adapter.recognises(case.command)] == [
        case.adapter.name
    ]
    assert not case.adapter.recognises(Command(argv=("sleep", "1")))


@every_case
def test_changing_twice_is_changing_once(case: Case) -> None:
    first, last = case.configs[1], case.configs[-1]
    twice = case.adapter.command_for(case.adapter.command_for(case.command, first), last)
    assert twice == case.adapter.command_for(case.command, last)


@every_case
def test_launch_arguments_are_what_the_command_gets(case: Case) -> None:
    assert case.adapter.launch_args(case.command, OFF) == ()
    for config in case.configs:
        arguments = case.adapter.launch_args(case.command, config)
        changed = case.adapter.command_for(case.command, config)
        assert not arguments or changed.argv[-len(arguments) :] == arguments


SCHEDULE = Schedule.of((1, 4, 3), (5, 16, 1), (17, None, 0))
SCHEDULED = {"embedded": "eagle", "sglang": "eagle3", "vllm": "eagle3"}
"""Dialects that can start a schedule, with the method of their case. SGLang's and vLLM's are source facts."""


@every_case
def test_a_schedule_is_started_or_refused_with_a_reason(case: Case) -> None:
    config = SpecConfig.chain(SCHEDULED.get(case.adapter.name, case.adapter.methods(case.command)[0]), 3)
    reason = case.adapter.check_schedule(case.command, config, SCHEDULE)
    assert bool(reason) != (case.adapter.name in SCHEDULED)
    scheduled = case.adapter.scheduled(case.command, config, SCHEDULE, "/run/schedule file.json")
    assert case.adapter.recognises(scheduled.command)
    assert case.adapter.base_config(scheduled.command) == config
    assert scheduled.command.env == case.command.env
    assert bool(scheduled.file_text) == any("schedule file" in word for word in scheduled.command.argv)


@every_case
def test_a_schedule_leaves_nothing_in_a_fixed_setting(case: Case) -> None:
    config = SpecConfig.chain(SCHEDULED.get(case.adapter.name, case.adapter.methods(case.command)[0]), 3)
    scheduled = case.adapter.scheduled(case.command, config, SCHEDULE, "/run/s.json").command
    again = case.adapter.scheduled(scheduled, config, SCHEDULE, "/run/s.json").command
    assert again == scheduled
    for fixed in case.configs:
        changed = case.adapter.command_for(scheduled, fixed)
        assert changed == case.adapter.command_for(case.command, fixed)
        assert case.adapter.traits(changed, fixed) == case.adapter.traits(case.command, fixed)


@every_case
def test_a_schedule_of_nothing_but_off_is_refused(case: Case) -> None:
    assert case.adapter.check_schedule(case.command, OFF, Schedule.of((1, None, 0)))


@every_case
def test_a_version_and_a_file_do_not_change_what_is_recognised(case: Case) -> None:
    known = case.adapter.knowing(EngineFacts(version="99.0.0", schedule_text="{}"))
    assert known.facts.version == "99.0.0"
    assert known.recognises(case.command)
    assert known.base_config(case.command) == case.adapter.base_config(case.command)


@every_case
def test_an_ordinary_log_refuses_nothing(case: Case) -> None:
    assert case.adapter.refusal("server is up\nspeculation is on") == ""


WRAPPERS = (
    ("env", "B=2"),
    ("numactl", "-N", "0", "--"),
    ("uv", "run", "--"),
    ("taskset", "-c", "0"),
    ("docker", "run", "--rm", "--network", "host", "image:tag"),
)


@every_case
@pytest.mark.parametrize("wrapper", WRAPPERS, ids=lambda wrapper: wrapper[0])
def test_behind_a_wrapper_the_same_words_change(case: Case, wrapper: tuple[str, ...]) -> None:
    for config in case.configs:
        bare = case.adapter.command_for(case.command, config)
        wrapped = case.adapter.command_for(replace(case.command, argv=(*wrapper, *case.command.argv)), config)
        assert wrapped.argv == (*wrapper, *bare.argv)


@pytest.mark.parametrize("case", CASES[1:], ids=lambda case: case.adapter.name)
def test_inside_a_shell_text_the_same_words_change_and_nothing_else(case: Case) -> None:
    text = f"cd 'my dir' && HF_HOME=$HOME/x exec {shlex.join(case.command.argv)} > 'a log' 2>&1"
    command = Command(argv=("bash", "-lc", text))
    assert case.adapter.recognises(command)
    for config in case.configs:
        changed = case.adapter.command_for(command, config)
        assert changed.argv[:2] == command.argv[:2]
        assert changed.argv[2].startswith("cd 'my dir' && HF_HOME=$HOME/x exec ")
        assert changed.argv[2].endswith(" > 'a log' 2>&1")
        assert case.adapter.base_config(changed) == config
        inner = changed.argv[2].split(" exec ")[1].split(" > ")[0]
        assert tuple(shlex.split(inner)) == case.adapter.command_for(case.command, config).argv


OTHER_WORD = st.sampled_from(HOSTILE) | st.text(min_size=1, max_size=12).filter(
    lambda word: not word.startswith("-") and "=" not in word and "\x00" not in word
)


@every_case
@given(data=st.data())
def test_words_that_are_not_of_speculation_stay_as_they_are(case: Case, data: st.DataObject) -> None:
    words = tuple(data.draw(st.lists(OTHER_WORD, max_size=4)))
    extra = tuple(word for other in words for word in ("--chat-template", other))
    command = replace(case.command, argv=(*case.command.argv, *extra))
    config = data.draw(st.sampled_from(case.configs))
    bare = case.adapter.command_for(case.command, config).argv
    added = len(case.adapter.launch_args(command, config))
    changed = case.adapter.command_for(command, config).argv
    assert changed == (*bare[: len(bare) - added], *extra, *bare[len(bare) - added :])


@every_case
def test_what_is_prepared_is_told_and_done_once(case: Case) -> None:
    prepared = case.adapter.prepared(case.command, max_concurrency=64)
    added = prepared.command.argv[len(case.command.argv) :]
    assert prepared.command.argv[: len(case.command.argv)] == case.command.argv
    flags = [word for word in added if word.startswith("-")]
    assert all(any(flag in note for note in prepared.notes) for flag in flags)
    assert case.adapter.prepared(prepared.command, max_concurrency=64).command == prepared.command


@every_case
def test_the_first_method_offered_can_run(case: Case) -> None:
    method = case.adapter.methods(case.command)[0]
    assert case.adapter.check(case.command, SpecConfig.chain(method, 3)) == ""
    assert case.adapter.check(case.command, SpecConfig.chain("telepathy", 3))


@every_case
def test_secrets_of_a_command_are_masked_in_print(case: Case) -> None:
    secret = "s3cret-value"
    argv = (*case.command.argv, "--hf-token", secret)
    assert secret not in Command(argv=argv).printable
    assert secret not in Command(argv=("bash", "-c", f"HF_TOKEN={secret} {shlex.join(argv)}")).printable


@every_case
@pytest.mark.parametrize("garbage", GARBAGE)
def test_unreadable_answers_are_protocol_errors(case: Case, garbage: str) -> None:
    adapter = case.adapter
    with pytest.raises(ProtocolError):
        adapter.read_generation(garbage)
    with pytest.raises(ProtocolError):
        adapter.read_settings(case.command, (garbage,) * len(adapter.settings_requests()), "")
    with pytest.raises(ProtocolError):
        adapter.read_counters(garbage, OFF)


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
