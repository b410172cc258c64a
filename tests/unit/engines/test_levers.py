import pytest

from spectune.domain.command import Command
from spectune.domain.spec_config import SpecConfig
from spectune.domain.trial import EffectiveSettings, ReportedKey
from spectune.engines.adapter import EngineAdapter
from spectune.engines.embedded import EmbeddedAdapter
from spectune.engines.levers import (
    LEVERS,
    changing_flags,
    check_lever,
    lever_differs,
    parse_lever,
    requested_keys,
)
from spectune.engines.llamacpp import LlamacppAdapter
from spectune.engines.sglang import SglangAdapter
from spectune.engines.vllm import VllmAdapter
from spectune.errors import ConfigError


def reporting(**keys: str) -> EffectiveSettings:
    return EffectiveSettings(
        config=SpecConfig.chain("eagle", 3),
        max_running_requests=21,
        max_total_num_tokens=None,
        engine_version="0.5.12.post1",
        reported=tuple(ReportedKey(name=name, value=value, kind="capacity") for name, value in keys.items()),
    )


def test_several_flags_and_switches_are_one_lever() -> None:
    text = "--max-running-requests=24 --enable-linear-replayssm-spec --mamba-ssm-dtype bfloat16"
    words = [pulled.words for pulled in parse_lever("sglang", text)]
    assert words == [
        ("--max-running-requests", "24"),
        ("--enable-linear-replayssm-spec",),
        ("--mamba-ssm-dtype", "bfloat16"),
    ]
    assert requested_keys("sglang", text) == (
        ("max_running_requests", "24"),
        ("enable_linear_replayssm_spec", "True"),
        ("mamba_ssm_dtype", "bfloat16"),
    )
    assert requested_keys("sglang", "") == ()


@pytest.mark.parametrize(
    ("engine", "text", "part"),
    [
        ("sglang", "", "got nothing"),
        ("sglang", "--model-path x", "--max-running-requests"),
        ("sglang", "--max-running-requests", "followed by a value"),
        ("sglang", "--max-running-requests 0", "whole number"),
        ("sglang", "--max-running-requests 1e3", "whole number"),
        ("sglang", "--mem-fraction-static 1.2", "between 0 and 1"),
        ("sglang", "--mamba-full-memory-ratio nan", "above 0"),
        ("sglang", "--mamba-ssm-dtype int3", "float32"),
        ("sglang", "--disable-radix-cache=1", "no value"),
        ("vllm", "--max-num-seqs '", "quoted"),
        ("embedded", "--max-num-seqs 4", "--max-running-requests"),
    ],
)
def test_what_is_no_lever_is_refused_with_what_would_be(engine: str, text: str, part: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_lever(engine, text)
    assert part in str(refused.value)


def test_a_lever_the_build_does_not_have_is_not_pulled() -> None:
    text = "--enable-linear-replayssm-spec"
    assert text in check_lever("sglang", text, help_text="--max-running-requests N")
    assert check_lever("sglang", text, help_text=f"… {text} …") == ""
    assert check_lever("sglang", text) == ""


def test_a_key_reported_otherwise_than_asked_differs() -> None:
    text = "--max-running-requests 24 --mamba-full-memory-ratio 0.50"
    same = reporting(max_running_requests="24", mamba_full_memory_ratio="0.5")
    assert lever_differs("sglang", text, same) == ""
    other = reporting(max_running_requests="48", mamba_full_memory_ratio="0.9")
    assert lever_differs("sglang", text, other) == (
        "max_running_requests 24 was asked for, 48 runs; mamba_full_memory_ratio 0.50 was asked for, 0.9 runs"
    )
    assert lever_differs("sglang", text, reporting(page_size="1", max_running_requests="24")) == ""


def test_an_engine_that_reports_no_argument_is_held_to_its_capacity() -> None:
    assert lever_differs("embedded", "--max-running-requests 21", reporting()) == ""
    assert "21 runs" in lever_differs("embedded", "--max-running-requests 20", reporting())
    assert lever_differs("embedded", "--max-running-requests 24", reporting()) == ""  # its capacity


def test_a_lever_that_changes_the_numbers_is_known_by_its_flag() -> None:
    text = "--max-running-requests 4 --mamba-ssm-dtype=bfloat16"
    assert changing_flags("sglang", text) == ("--mamba-ssm-dtype",)
    assert changing_flags("vllm", "--mamba-ssm-cache-dtype float16") == ("--mamba-ssm-cache-dtype",)
    assert changing_flags("sglang", "--max-running-requests 4") == ()
    assert changing_flags("sglang", "") == ()


def test_switches_and_aliases_are_replaced_not_doubled() -> None:
    sglang = Command(argv=("sglang", "serve", "--disable-radix-cache", "--max-running-requests", "9", "--x"))
    changed = SglangAdapter().with_flags(sglang, ("--max-running-requests", "4", "--disable-radix-cache"))
    assert changed.argv == (
        "sglang", "serve", "--x", "--max-running-requests", "4", "--disable-radix-cache",
    )  # fmt: skip
    llama = Command(argv=("llama-server", "-np", "8", "-m", "m.gguf"))
    assert LlamacppAdapter().with_flags(llama, ("--parallel", "2")).argv == (
        "llama-server", "-m", "m.gguf", "--parallel", "2",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("adapter", "command", "lever", "changed"),
    [
        (LlamacppAdapter(), "llama-server --parallel 8 -m m", "-np 2", "llama-server -m m --parallel 2"),
        (LlamacppAdapter(), "llama-server -np 8 -m m", "--parallel 2", "llama-server -m m --parallel 2"),
        (LlamacppAdapter(), "llama-server -c 1 -m m", "--ctx-size=4096", "llama-server -m m --ctx-size 4096"),
        (
            LlamacppAdapter(), "llama-server -m m -hfd a/b", "-md d.gguf",
            "llama-server -m m --spec-draft-model d.gguf",
        ),
        (
            LlamacppAdapter(), "llama-server -m m -md d.gguf", "-hfd a/b",
            "llama-server -m m --spec-draft-hf a/b",
        ),
        (
            SglangAdapter(), "sglang serve --max-running-requests=9 --x",
            "--max-running-requests=4 --disable-radix-cache",
            "sglang serve --x --max-running-requests 4 --disable-radix-cache",
        ),
        (
            SglangAdapter(), "sglang serve --speculative-draft-model-path old --x",
            "--speculative-draft-model=new", "sglang serve --x --speculative-draft-model-path new",
        ),
        (VllmAdapter(), "vllm serve m --max-num-seqs 9", "--max-num-seqs=4", "vllm serve m --max-num-seqs 4"),
        (
            EmbeddedAdapter(), "spectune serve --max-running-requests=9 --port 1", "--max-running-requests=4",
            "spectune serve --port 1 --max-running-requests 4",
        ),
    ],
)  # fmt: skip
def test_however_a_lever_is_written_the_commands_own_flag_goes(
    adapter: EngineAdapter, command: str, lever: str, changed: str
) -> None:
    words = tuple(lever.split())
    assert adapter.with_flags(Command(argv=tuple(command.split())), words).argv == tuple(changed.split())


def test_a_flag_that_is_no_lever_does_not_get_into_a_command() -> None:
    with pytest.raises(ConfigError, match="must be pulled on vllm"):
        VllmAdapter().with_flags(Command(argv=("vllm", "serve", "m")), ("--model", "x"))


def test_every_lever_can_be_pulled() -> None:
    samples = {"count": "4", "share": "0.5", "ratio": "1.5", "switch": ""}
    for engine, levers in LEVERS.items():
        for lever in levers:
            value = samples.get(lever.form) or (lever.choices[0] if lever.choices else "word")
            value = "" if lever.form == "switch" else value
            (pulled,) = parse_lever(engine, f"{lever.flag} {value}")
            assert pulled.lever == lever
