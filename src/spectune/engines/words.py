"""Where an engine's own arguments are in a command, and that command with some of them changed. Pure.

An engine may stand behind `env`, `numactl`, `uv run`, `docker run … IMAGE` and the like: its start is looked
for at every place. Behind `sh -c TEXT` the text is edited as text: removed words and the blanks before them
are cut out, added ones are quoted and put after the last argument, and not one other letter changes.
"""

import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from spectune.domain.command import Command
from spectune.engines.shell_text import ShellWord, simple_commands
from spectune.errors import ConfigError

Starts = Callable[[tuple[str, ...]], int]
"""How many words at the head of these start the engine; 0 when they do not."""

_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ash", "ksh"})


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineWords:
    """An engine's arguments within a command.

    Attributes:
        command: the whole command.
        first: index in `argv` of the first argument, or of the shell's text.
        arguments: the values of the words after the engine's start.
        shell_words: the same words in the shell's text, the start's last one first; empty without a shell.
    """

    command: Command
    first: int
    arguments: tuple[str, ...]
    shell_words: tuple[ShellWord, ...] = ()

    def fixed(self, place: int) -> str:
        """The argument at this place; raises ConfigError when a shell would expand it."""
        if self.shell_words and not self.shell_words[place + 1].is_fixed:
            raise ConfigError(
                f"serve command: `{self.arguments[place]}` must be written out, the shell expands it; put "
                "its value there."
            )
        return self.arguments[place]

    def changed(self, removed: frozenset[int], added: tuple[str, ...]) -> Command:
        """The command without the arguments at these places, and with others after the last one."""
        argv = self.command.argv
        if not self.shell_words:
            kept = tuple(word for place, word in enumerate(self.arguments) if place not in removed)
            return replace(self.command, argv=(*argv[: self.first], *kept, *added))
        text = self._changed_text(argv[self.first], removed, added)
        return replace(self.command, argv=(*argv[: self.first], text, *argv[self.first + 1 :]))

    def _changed_text(self, text: str, removed: frozenset[int], added: tuple[str, ...]) -> str:
        end = self.shell_words[-1].end
        changed = text[:end] + (f" {shlex.join(added)}" if added else "") + text[end:]
        for place in sorted(removed, reverse=True):
            word = self.shell_words[place + 1]
            changed = changed[: _blanks_before(text, word.start)] + changed[word.end :]
        return changed


def find_engine(command: Command, starts: Starts) -> EngineWords | None:
    """The engine's arguments, wherever in the command it starts; None when it does not."""
    for place in range(len(command.argv)):
        length = starts(command.argv[place:])
        if length:
            first = place + length
            return EngineWords(command=command, first=first, arguments=command.argv[first:])
        if _is_shell_text(command.argv, place):
            found = _find_in_text(command, place, starts)
            if found is not None:
                return found
    return None


def engine_words(command: Command, starts: Starts, engine: str) -> EngineWords:
    """As `find_engine`; raises ConfigError when the command does not start the engine."""
    found = find_engine(command, starts)
    if found is None:
        raise ConfigError(f"serve command: `it starts {engine}` must hold, got {command.printable}.")
    return found


def program(words: tuple[str, ...]) -> str:
    """The first word's file name, "" when there is none."""
    return PurePosixPath(words[0]).name if words else ""


def is_module(words: tuple[str, ...], *names: str) -> bool:
    """Whether the words begin with `-m` and one of these modules."""
    return len(words) > 1 and words[0] == "-m" and words[1] in names


def is_image(words: tuple[str, ...], name: str) -> bool:
    """Whether the words begin with a container image of this name that is given arguments only.

    >>> is_image(("vllm/vllm-openai:v0.26.0", "--model", "m"), "vllm-openai")
    True
    """
    if len(words) < 2 or not words[1].startswith("-") or not ({"/", ":"} & set(words[0])):
        return False
    return words[0].partition("@")[0].rpartition("/")[2].partition(":")[0] == name


def is_in_container(before: tuple[str, ...]) -> bool:
    """Whether the words before the engine's arguments run it in a container."""
    return any(
        PurePosixPath(word).name in ("docker", "podman", "nerdctl") and "run" in before[place:]
        for place, word in enumerate(before)
    )


def _blanks_before(text: str, place: int) -> int:
    """Where the blanks and line continuations that end at `place` begin."""
    while place > 0:
        if text[place - 1] in " \t":
            place -= 1
        elif text.endswith("\\\n", 0, place):
            place -= 2
        else:
            break
    return place


def _is_shell_text(argv: tuple[str, ...], place: int) -> bool:
    """Whether this word is what a shell's `-c` is given."""
    option = argv[place - 1] if place >= 2 else ""
    if not (option.startswith("-") and not option.startswith("--") and option.endswith("c")):
        return False
    before = place - 2
    while before > 0 and argv[before].startswith("-"):
        before -= 1
    return PurePosixPath(argv[before]).name in _SHELLS


def _find_in_text(command: Command, place: int, starts: Starts) -> EngineWords | None:
    for words in simple_commands(command.argv[place]):
        values = tuple(word.value for word in words)
        for begin in range(len(words)):
            length = starts(values[begin:])
            if length:
                first = begin + length
                return EngineWords(
                    command=command,
                    first=place,
                    arguments=values[first:],
                    shell_words=words[first - 1 :],
                )
    return None
