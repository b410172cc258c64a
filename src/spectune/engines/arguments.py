"""Flags among an engine's arguments, read and taken out: `--name value`, `--name=value`, switches."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from spectune.domain.command import Command
from spectune.engines.words import EngineWords
from spectune.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagRule:
    """How an engine writes its flags.

    Attributes:
        has_equals: whether `--name=value` is one flag with its value.
        has_underscores: whether `--a_b` is `--a-b`.
    """

    has_equals: bool = True
    has_underscores: bool = False


ARGPARSE = FlagRule()


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFlag:
    """A flag that was written.

    Attributes:
        value: what follows it; "" for a switch.
        places: indexes among the arguments that it takes up.
    """

    value: str
    places: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """An engine's arguments, read flag by flag.

    Attributes:
        words: the engine's arguments in the command.
        rule: how they are written.
        file: flags with their values out of a file that the command names; the command's own come first.
    """

    words: EngineWords
    rule: FlagRule = ARGPARSE
    file: tuple[tuple[str, ...], ...] = ()

    def all(self, *names: str, is_switch: bool = False) -> tuple[FoundFlag, ...]:
        """Every mention of a flag under any of its names; raises ConfigError when a value is missing."""
        found: list[FoundFlag] = []
        for place, word in enumerate(self.words.arguments):
            name, equals, _ = self.split(word)
            if name not in names:
                continue
            if equals:
                value = self.words.fixed(place).partition("=")[2]
                found.append(FoundFlag(value=value, places=(place,)))
            elif is_switch:
                found.append(FoundFlag(value="", places=(place,)))
            else:
                found.append(self._followed(name, place))
        return tuple(found)

    def value(self, *names: str) -> str | None:
        """The last mention's value, which is the one that counts; None when there is none."""
        found = self.all(*names)
        if found:
            return found[-1].value
        if self.file:
            return self.in_file().value(*names)
        return None

    def in_file(self) -> "Flags":
        """The file's flags alone."""
        argv = tuple(word for words in self.file for word in words)
        words = EngineWords(command=Command(argv=argv), first=0, arguments=argv)
        return replace(self, words=words, file=())

    def number(self, *names: str) -> int | None:
        """The value as a whole number; raises ConfigError when it is none."""
        value = self.value(*names)
        if value is None:
            return None
        try:
            return int(value)
        except ValueError:
            raise ConfigError(
                f"serve command: `{names[0]} is a whole number` must hold, got {value!r}."
            ) from None

    def share(self, *names: str) -> float | None:
        """The value as a number from 0 to 1; raises ConfigError when it is none."""
        value = self.value(*names)
        if value is None:
            return None
        try:
            number = float(value)
        except ValueError:
            number = -1.0
        if not 0 <= number <= 1:
            raise ConfigError(f"serve command: `0 <= {names[0]} <= 1` must hold, got {value!r}.")
        return number

    def has(self, *names: str) -> bool:
        """Whether the flag is mentioned, as a switch or with a value."""
        if any(self.split(word)[0] in names for word in self.words.arguments):
            return True
        return bool(self.file) and self.in_file().has(*names)

    def places(self, *names: str, switches: frozenset[str] = frozenset()) -> frozenset[int]:
        """Where these flags and their values stand; those named in `switches` take no value."""
        return frozenset(
            place
            for name in names
            for flag in self.all(name, is_switch=name in switches)
            for place in flag.places
        )

    def with_words(self, words: tuple[str, ...], aliases: Mapping[str, tuple[str, ...]]) -> Command:
        """The command with flags put after the last word, its own of their names and aliases taken out.

        Args:
            words: `--name value` pairs and switches.
            aliases: other names of a flag.
        """
        starts = [place for place, word in enumerate(words) if word.startswith("--")]
        switches = {words[place] for place in starts if place + 1 == len(words) or place + 1 in starts}
        valued = {words[place] for place in starts} - switches
        names = valued | {alias for flag in valued for alias in aliases.get(flag, ())}
        return self.words.changed(self.places(*names, *switches, switches=frozenset(switches)), words)

    def port(self, default: int) -> int:
        """The value of `--port`; raises ConfigError when it is no port."""
        port = self.number("--port")
        port = default if port is None else port
        if not 0 < port < 65536:
            raise ConfigError(f"serve command: `0 < --port < 65536` must hold, got {port}.")
        return port

    def split(self, word: str) -> tuple[str, bool, str]:
        """A word's flag name, whether a value is glued to it, and that value."""
        name, equals, value = word, "", ""
        if self.rule.has_equals and word.startswith("--"):
            name, equals, value = word.partition("=")
        if self.rule.has_underscores and name.startswith("--"):
            name = name.replace("_", "-")
        return name, bool(equals), value

    def refuse_abbreviations(self, names: frozenset[str]) -> None:
        """Raises ConfigError where argparse would take a shortened flag for one of these."""
        for word in self.words.arguments:
            name = self.split(word)[0]
            longer = sorted(known for known in names if known.startswith(name))
            if name.startswith("--spec") and longer and name not in names:
                raise ConfigError(
                    f"serve command: `a speculative flag is written out` must hold, got {name}; write "
                    f"{longer[0]}."
                )

    def _followed(self, name: str, place: int) -> FoundFlag:
        if place + 1 == len(self.words.arguments):
            raise ConfigError(f"serve command: `{name}` must be followed by a value; it is the last word.")
        return FoundFlag(value=self.words.fixed(place + 1), places=(place, place + 1))
