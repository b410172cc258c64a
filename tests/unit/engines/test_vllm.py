from pathlib import Path

import pytest

from spectune.domain.command import Command
from spectune.domain.schedule import Schedule
from spectune.domain.spec_config import OFF, SpecConfig
from spectune.engines.adapter import EngineFacts, ServerTraces
from spectune.engines.known_bugs import bugs_before_launch
from spectune.engines.vllm import VllmAdapter
from spectune.errors import ConfigError

ADAPTER = VllmAdapter()


def command(*flags: str) -> Command:
    return Command(argv=("vllm", "serve", "m", *flags))


@pytest.mark.parametrize(
    "argv",
    [
        ("python", "-m", "vllm.entrypoints.openai.api_server", "--model", "m"),
        ("python", "-m", "vllm.entrypoints.cli.main", "serve", "m"),
        ("docker", "run", "--gpus", "all", "-p", "8000:8000", "vllm/vllm-openai:v0.26.0", "--model", "m"),
        ("uv", "run", "vllm", "serve", "m"),
    ],
)
def test_its_commands_are_recognised(argv: tuple[str, ...]) -> None:
    assert ADAPTER.recognises(Command(argv=argv))


@pytest.mark.parametrize(
    ("flags", "config", "part"),
    [
        ((), SpecConfig(method="eagle", num_steps=2, topk=2, num_draft_tokens=4), "chains only"),
        ((), SpecConfig.chain("eagle3", 3), "model"),
        ((), SpecConfig.chain("ngram", 200), "128"),
        ((), SpecConfig.chain("telepathy", 1), "telepathy"),
        (
            ("--enable-lora", "--max-num-seqs", "256", "--max_num_batched_tokens=1024"),
            SpecConfig.chain("ngram", 4),
            "LoRA",
        ),
    ],
)
def test_impossible_combinations_say_why(flags: tuple[str, ...], config: SpecConfig, part: str) -> None:
    assert part in ADAPTER.check(command(*flags), config)
    assert ADAPTER.check(command(*flags), OFF) == ""


def test_a_server_that_does_not_count_is_refused() -> None:
    with pytest.raises(ConfigError, match="--disable-log-stats"):
        ADAPTER.prepared(command("--disable-log-stats"), max_concurrency=4)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (
            "ValueError: Free memory on device cuda:0 (3.1/139.8 GiB) on startup is less than desired",
            "memory_held",
        ),
        ("ValueError: No available memory for the cache blocks. Try increasing", "out_of_memory"),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate", "out_of_memory"),
        ("OSError: no-draft is not a local folder and is not a valid model identifier", "missing_draft"),
        ("vllm serve: error: unrecognized arguments: --x", "bad_argument"),
        ("RuntimeError: CUDA driver version is insufficient for CUDA runtime version", "driver_error"),
    ],
)
def test_the_root_cause_is_found_above_the_last_words(line: str, kind: str) -> None:
    log = f"{line}\nRuntimeError: Engine core initialization failed. See root cause above.\n"
    assert ADAPTER.diagnose(ServerTraces(exit_status=1, log_tail=log, was_ready=False)).kind == kind


@pytest.mark.parametrize(
    ("line", "told"),
    [  # each seen on an H200 (0.26.0)
        ("ValueError: No available memory for the cache blocks. Try increasing", "Raise --gpu-mem"),
        (
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.54 GiB.",
            "--kv-cache-memory-bytes",
        ),
        (
            "ValueError: Free memory on device cuda:0 (115.74/139.8 GiB) on startup is less than desired GPU",
            "nvidia-smi",
        ),
    ],
)
def test_out_of_memory_names_vllms_own_flags(line: str, told: str) -> None:
    log = f"(EngineCore pid=7) {line}\n(APIServer pid=6) RuntimeError: Engine core initialization failed.\n"
    found = ADAPTER.diagnose(ServerTraces(exit_status=1, log_tail=log, was_ready=False))
    assert told in found.next_step
    assert "--max-running-requests" not in found.next_step  # SGLang's
    assert line in found.cause


def test_less_memory_is_a_lower_utilization() -> None:
    found = ADAPTER.with_less_memory(command("--gpu_memory_utilization", "0.95"), "CUDA out of memory")
    assert found is not None
    assert found.command == command("--gpu-memory-utilization", "0.9")
    assert ADAPTER.with_less_memory(command("--kv-cache-memory-bytes", "9"), "CUDA out of memory") is None
    assert ADAPTER.with_less_memory(command(), "No available memory for the cache blocks") is None


def test_traits_are_those_that_bugs_depend_on() -> None:
    schedule = '{"method": "mtp", "num_speculative_tokens_per_batch_size": [[1, 8, 2]]}'
    given = command("--speculative-config", schedule, "-dp", "2", "--pipeline-parallel-size=2")
    assert ADAPTER.traits(given, SpecConfig.chain("mtp", 2)) == {
        "method:mtp", "speculation", "schedule", "data-parallel", "pipeline-parallel",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("flags", "num_steps", "is_beyond"),
    [
        (("--max-num-seqs", "64"), 7, False),  # 64 · 8 = 512 tokens, the largest captured (0.26.0, H200, log)
        (("--max-num-seqs", "64"), 8, True),  # 64 · 9: 3,620 instead of 8,328 tok/s there
        (("--max-num-seqs", "64", "--max-cudagraph-capture-size", "576"), 8, False),
        (("--max-num-seqs", "64", "--max-cudagraph-capture-size=256"), 4, True),
        (("--max-num-seqs", "64", "--enforce-eager"), 8, False),
        (("--max-num-seqs", "64", "-cc", "{}"), 8, False),
        (("--max-num-seqs", "2048"), 0, False),
        ((), 8, False),
    ],
)
def test_batches_beyond_the_captured_graphs_are_told_before_a_launch(
    flags: tuple[str, ...], num_steps: int, is_beyond: bool
) -> None:
    config = SpecConfig.chain("eagle3", num_steps) if num_steps else OFF
    traits = ADAPTER.traits(command(*flags), config)
    assert ("beyond-graphs" in traits) is is_beyond
    told = [bug for bug in bugs_before_launch("vllm", "", traits) if "CUDA graphs are" in bug.symptom]
    assert len(told) == is_beyond


def test_a_file_of_flags_counts_and_is_written_out_when_it_must_change() -> None:
    adapter = ADAPTER.knowing(
        EngineFacts(
            config_text=(
                "port: 7\nspeculative-config:\n  method: eagle3\n  model: d\n  num_speculative_tokens: 3\n"
            )
        )
    )
    given = command("--config", "c.yaml")
    assert adapter.base_config(given) == SpecConfig.chain("eagle3", 3)
    assert adapter.command_for(given, OFF) == command("--port", "7")
    changed = adapter.command_for(given, SpecConfig.chain("eagle3", 1))
    assert '"model": "d"' in changed.argv[-1]
    assert adapter.base_config(changed) == SpecConfig.chain("eagle3", 1)


def test_kernels_compiled_while_it_serves_are_counted() -> None:
    log = (
        "WARNING [jit_monitor.py:135] Triton kernel JIT compilation during inference: fused_moe_kernel.\n"
        "INFO [jit_monitor.py:79] JIT monitor activated; monitored JIT compilations during inference will\n"
    )
    assert ADAPTER.compilations(log) == 1
    assert ADAPTER.compilations("") == 0


SCHEDULE = Schedule.of((1, 4, 3), (5, None, 0))
DROPPED = (
    "WARNING [vllm.py:1066] Dynamic speculative decoding is not supported with data parallelism because "
    "ranks diverge. Disabling num_speculative_tokens_per_batch_size and falling back to static."
)


def test_a_schedule_is_refused_where_vllm_would_drop_it() -> None:
    config = SpecConfig.chain("ngram", 3)
    assert ADAPTER.check_schedule(command(), config, SCHEDULE) == ""
    assert "data parallelism" in ADAPTER.check_schedule(command("-dp", "2"), config, SCHEDULE)
    assert "drafts" in ADAPTER.check_schedule(command(), OFF, Schedule.of((1, None, 0)))


def test_a_schedule_is_read_back_from_the_command_unless_the_log_drops_it() -> None:
    recorded = Path(__file__).parents[2] / "transcripts" / "vllm-0.32.0-cpu" / "ngram-K2"
    answers = tuple(
        (recorded / name).read_text("utf-8") for name in ("version.json", "metrics_after.txt", "models.json")
    )
    log = (recorded / "start.log").read_text("utf-8")
    started = ADAPTER.scheduled(
        command(), SpecConfig.chain("ngram", 2), Schedule.of((1, 4, 2), (5, None, 0)), ""
    )
    assert started.file_text == ""
    found = ADAPTER.read_settings(started.command, answers, log)
    assert found.schedule == Schedule.of((1, 4, 2), (5, None, 0))
    assert found.config == SpecConfig.chain("ngram", 2)
    assert ADAPTER.read_settings(started.command, answers, f"{log}\n{DROPPED}").schedule is None
    assert ADAPTER.refusal(f"{log}\n{DROPPED}\n") == DROPPED
    assert ADAPTER.read_settings(command(), answers, log).schedule is None
