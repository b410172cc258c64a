import sys
from pathlib import Path

import pytest

from spectune.cli.engine_facts import check_program, learn, with_file
from spectune.domain.command import Command
from spectune.domain.spec_config import OFF, SpecConfig
from spectune.engines.llamacpp import LlamacppAdapter
from spectune.engines.vllm import VllmAdapter
from spectune.errors import ConfigError

TEXT = "speculative-config: {method: ngram, num_speculative_tokens: 3}\n"


def script(path: Path, text: str) -> str:
    path.write_text(f"#!{sys.executable}\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_a_file_of_flags_is_read(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(TEXT)
    command = Command(argv=("vllm", "serve", "m", "--config", str(tmp_path / "c.yaml")))
    for adapter in (learn(VllmAdapter(), command), with_file(VllmAdapter(), command)):
        assert adapter.base_config(command) == SpecConfig.chain("ngram", 3)


def test_a_file_that_is_gone_is_refused_before_a_study_and_left_out_after_it(tmp_path: Path) -> None:
    command = Command(argv=("vllm", "serve", "m", "--config", str(tmp_path / "gone.yaml")))
    with pytest.raises(ConfigError, match=r"gone\.yaml"):
        learn(VllmAdapter(), command)
    assert with_file(VllmAdapter(), command).base_config(command) == OFF


def test_help_is_asked_of_the_users_own_program(tmp_path: Path) -> None:
    program = script(
        tmp_path / "llama-server", "import sys; print('--draft-max' if '--help' in sys.argv else 1)"
    )
    command = Command(argv=(program, "-m", "m.gguf", "-md", "d.gguf"))
    learnt = learn(LlamacppAdapter(), command)
    assert learnt.launch_args(command, SpecConfig.chain("draft_model", 2)) == ("--draft-max", "2")


@pytest.mark.parametrize("text", ["raise SystemExit(1)", "import time; print('x')"])
def test_an_engine_that_gives_no_help_is_used_without(tmp_path: Path, text: str) -> None:
    command = Command(argv=(script(tmp_path / "llama-server", text), "-m", "m.gguf"))
    learnt = learn(LlamacppAdapter(), command)
    assert isinstance(learnt, LlamacppAdapter)
    assert learnt.facts.help_text.strip() in ("", "x")


def test_a_program_that_is_not_there_is_named() -> None:
    check_program(Command(argv=(sys.executable,)))
    with pytest.raises(ConfigError, match="no-such-program"):
        check_program(Command(argv=("no-such-program", "x")))
