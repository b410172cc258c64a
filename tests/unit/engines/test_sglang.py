import pytest

from spectune.domain.command import Command
from spectune.domain.spec_config import OFF, SpecConfig
from spectune.engines.adapter import EngineFacts, ServerTraces
from spectune.engines.sglang import SglangAdapter

ADAPTER = SglangAdapter()
SERVE = ("python", "-m", "sglang.launch_server", "--model-path", "m")
EAGLE3 = ("--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", "d")
TREE = SpecConfig(method="eagle3", num_steps=3, topk=4, num_draft_tokens=8)


def command(*flags: str) -> Command:
    return Command(argv=(*SERVE, *flags))


@pytest.mark.parametrize(
    "argv",
    [
        ("sglang", "serve", "--model-path", "m"),
        ("uv", "run", "python3", "-m", "sglang.launch_server"),
        ("docker", "run", "--gpus", "all", "lmsysorg/sglang:latest", "python3", "-m", "sglang.launch_server"),
        ("bash", "-c", "exec python -m sglang.launch_server --model-path m"),
    ],
)
def test_its_commands_are_recognised(argv: tuple[str, ...]) -> None:
    assert ADAPTER.recognises(Command(argv=argv))


def test_counting_and_one_limit_are_set_in_every_arm_and_told() -> None:
    prepared = ADAPTER.prepared(command(), max_concurrency=32)
    assert prepared.command.argv[-3:] == ("--enable-metrics", "--max-running-requests", "48")
    assert len(prepared.notes) == 2
    own = ADAPTER.prepared(command("--enable-metrics", "--max-running-requests=20"), max_concurrency=32)
    assert own.command == command("--enable-metrics", "--max-running-requests=20")
    assert ADAPTER.prepared(command(), max_concurrency=200).command.argv[-1] == "200"


@pytest.mark.parametrize(
    ("flags", "config", "part"),
    [
        ((), SpecConfig.chain("dflash", 3), "dflash"),
        ((), SpecConfig.chain("eagle3", 3), "--speculative-draft-model-path"),
        (("--enable-dp-attention",), SpecConfig.chain("ngram", 3), "--enable-dp-attention"),
        ((*EAGLE3, "--attention-backend", "trtllm_mha"), TREE, "topk 1 only"),
        ((*EAGLE3, "--attention-backend", "flashmla", "--page-size", "64"), TREE, "--page-size"),
        ((*EAGLE3, "--speculative-use-rejection-sampling"), TREE, "topk 1"),
    ],
)
def test_impossible_combinations_say_why(flags: tuple[str, ...], config: SpecConfig, part: str) -> None:
    assert part in ADAPTER.check(command(*flags), config)
    assert ADAPTER.check(command(*flags), OFF) == ""


def test_a_flag_that_help_does_not_show_is_not_used() -> None:
    old = ADAPTER.knowing(EngineFacts(help_text="--speculative-algorithm --speculative-num-draft-tokens"))
    assert "--speculative-ngram-min-bfs-breadth" in old.check(command(), SpecConfig.chain("ngram", 3))
    assert ADAPTER.check(command(), SpecConfig.chain("ngram", 3)) == ""


def test_help_is_asked_with_the_users_own_words_but_not_of_a_container() -> None:
    asked = ADAPTER.help_command(Command(argv=("numactl", "-N0", *SERVE)))
    assert asked is not None
    assert asked.argv == ("numactl", "-N0", "python", "-m", "sglang.launch_server", "--help")
    assert ADAPTER.help_command(Command(argv=("docker", "run", "img", *SERVE))) is None
    text = "systemctl stop other; exec python -m sglang.launch_server --model-path m"
    assert ADAPTER.help_command(Command(argv=("bash", "-c", text))) is None


def test_less_memory_is_a_lower_fraction_than_asked_or_logged() -> None:
    asked = ADAPTER.with_less_memory(command("--mem-fraction-static=0.9"), "CUDA out of memory")
    assert asked is not None
    assert asked.command.argv[-2:] == ("--mem-fraction-static", "0.85")
    assert "0.85 instead of 0.9" in asked.notes[0]
    logged = ADAPTER.with_less_memory(command(), "server_args=ServerArgs(mem_fraction_static=0.877, x=1)")
    assert logged is not None
    assert logged.command.argv[-1] == "0.827"


@pytest.mark.parametrize(
    ("flags", "log"),
    [
        ((), "no fraction is told"),
        (("--mem-fraction-static", "0.2"), ""),
        (("--mem-fraction-static", "0.9"), "Raise it: Loaded weights leave no GPU memory for the KV cache"),
    ],
)
def test_where_less_memory_would_not_help_there_is_no_second_try(flags: tuple[str, ...], log: str) -> None:
    assert ADAPTER.with_less_memory(command(*flags), log) is None


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (  # seen on an H200 (0.5.17)
            "ValueError: Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static",
            "Raise --mem-fraction-static to more than the message names.",
        ),
        ("torch.OutOfMemoryError: CUDA out of memory.", "Lower --mem-fraction-static"),
    ],
)
def test_out_of_memory_is_told_with_the_flag_that_helps(line: str, told: str) -> None:
    log = f"{line}\n\n[t] Received sigquit from a child process. It usually means the child failed.\n"
    found = ADAPTER.diagnose(ServerTraces(exit_status=-9, log_tail=log, was_ready=False))
    assert found.kind == "out_of_memory"
    assert found.next_step.startswith(told)
    assert found.cause == f"the server ended itself by SIGKILL: {line}"


def test_traits_are_those_that_bugs_depend_on() -> None:
    found = ADAPTER.traits(command(*EAGLE3, "--speculative-adaptive", "--dp-size", "2"), TREE)
    assert found == {"method:eagle3", "speculation", "topk>1", "schedule", "data-parallel"}
    assert ADAPTER.traits(command(), OFF) == {"method:off"}


def test_methods_follow_what_the_command_offers() -> None:
    assert ADAPTER.methods(command(*EAGLE3)) == ("eagle3", "ngram")
    assert ADAPTER.methods(command("--speculative-draft-model-path", "d"))[0] == "eagle3"
    assert ADAPTER.methods(command())[0] == "ngram"


FILE = "speculative-algorithm: EAGLE3\nspeculative-draft-model-path: d\nspeculative-num-steps: 2\nport: 7\n"


def test_a_file_of_flags_counts_and_is_written_out_when_it_must_change() -> None:
    given = command("--config", "c.yaml", "--host", "h")
    assert ADAPTER.config_file(given) == "c.yaml"
    adapter = ADAPTER.knowing(EngineFacts(config_text=FILE))
    assert adapter.base_config(given) == SpecConfig.chain("eagle3", 2)
    assert adapter.endpoint(given).port == 7
    assert adapter.command_for(given, OFF).argv == (*SERVE, "--host", "h", "--port", "7")
    changed = adapter.command_for(given, SpecConfig.chain("eagle3", 5))
    assert changed.argv[len(SERVE) : len(SERVE) + 6] == (
        "--host", "h", "--speculative-draft-model-path", "d", "--port", "7",
    )  # fmt: skip
    assert adapter.base_config(changed) == SpecConfig.chain("eagle3", 5)


def test_a_file_without_speculative_flags_stays_a_file() -> None:
    given = command("--config", "c.yaml")
    changed = ADAPTER.knowing(EngineFacts(config_text="port: 7\n")).command_for(
        given, SpecConfig.chain("ngram", 2)
    )
    assert changed.argv[: len(SERVE) + 2] == given.argv
