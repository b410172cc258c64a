"""What a dialect wants to know before anything is planned: a file of flags, the engine's help."""

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

from spectune.domain.command import Command
from spectune.engines.adapter import EngineAdapter
from spectune.errors import ConfigError

_HELP_S = 120.0


def learn(adapter: EngineAdapter, command: Command) -> EngineAdapter:
    """The dialect with the text of the command's file of flags and of the engine's `--help`.

    An engine that does not print its help in time is used without; the first launch shows what it lacks.

    Raises:
        ConfigError: the file cannot be read.
    """
    path = adapter.config_file(command)
    if path is not None:
        adapter = adapter.knowing(replace(adapter.facts, config_text=_read(path)))
    asked = adapter.help_command(command)
    return adapter if asked is None else adapter.knowing(replace(adapter.facts, help_text=_help(asked)))


def check_program(command: Command) -> None:
    """Raises ConfigError where the command's program is not there, before anything is started."""
    if shutil.which(command.argv[0], path=dict(command.env).get("PATH")) is None:
        raise ConfigError(
            f"serve command: `its program is on PATH` must hold, there is no {command.argv[0]!r}; give its "
            "whole path, or put it there."
        )


def with_file(adapter: EngineAdapter, command: Command) -> EngineAdapter:
    """The dialect with the text of the command's file of flags where it can still be read."""
    path = adapter.config_file(command)
    if path is None or not Path(path).is_file():
        return adapter
    return adapter.knowing(replace(adapter.facts, config_text=_read(path)))


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigError(
            f"serve command: `--config {path} is a readable text file here` must hold, got: {exc}; write its "
            "flags on the command line instead."
        ) from exc


def _help(command: Command) -> str:
    try:
        ran = subprocess.run(
            command.argv,
            env={**os.environ, **dict(command.env)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_HELP_S,
            check=False,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return ""
    return ran.stdout.decode(errors="replace") if ran.returncode == 0 else ""
