"""A service unit read from the text of `systemctl show` and `systemctl cat`, and drop-ins written. Pure.

Unchanged words of ExecStart are written back as they stand, `%i`, `${NAME}`, quotes and all; only what a
trial changes is written anew.
"""

import difflib
import hashlib
import re
from dataclasses import dataclass

from spectune.domain.command import MASK, Command, is_secret_name
from spectune.errors import ConfigError
from spectune.launch.systemd_quoting import UnitWord, quote_word, split_words
from spectune.launch.unit_name import UnitName, unescape

SHOWN = (
    "Id,LoadState,ActiveState,SubState,Type,User,FragmentPath,DropInPaths,NeedDaemonReload,Restart,"
    "TimeoutStopUSec,RequiredBy,BoundBy,ConsistsOf,TriggeredBy,Job"
)
_PREFIX = re.compile(r"[-@:+!|]*")
_VARIABLE = re.compile(r"\$\$|\$\{([A-Za-z_][A-Za-z0-9_]*)\}|\$([A-Za-z_][A-Za-z0-9_]*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """A service as systemd has it now.

    Attributes:
        name: its full name.
        properties: of `systemctl show`, as (name, value).
        exec_start: the one command line in force, as written.
        environment: of Environment= and the environment files, as (name, value), the later one winning.
        environment_files: paths as written, a leading `-` meaning that it may be missing.
    """

    name: UnitName
    properties: tuple[tuple[str, str], ...]
    exec_start: str
    environment: tuple[tuple[str, str], ...] = ()
    environment_files: tuple[str, ...] = ()

    def shown(self, name: str) -> str:
        """A property's value, "" where there is none."""
        return dict(self.properties).get(name, "")

    @property
    def active_state(self) -> str:
        """`active`, `inactive`, `failed`, `activating` and the like."""
        return self.shown("ActiveState")

    @property
    def drop_ins(self) -> tuple[str, ...]:
        """Paths of its drop-ins, in the order in which they are applied."""
        return tuple(word.text for word in split_words(self.shown("DropInPaths")))

    @property
    def dependents(self) -> tuple[str, ...]:
        """Units that are stopped together with it."""
        names = " ".join(self.shown(name) for name in ("RequiredBy", "BoundBy", "ConsistsOf"))
        return tuple(sorted({name for name in names.split() if not name.endswith(".target")}))

    @property
    def command(self) -> Command:
        """What it runs, specifiers and variables expanded; secret variables come along, to be masked."""
        line = ExecLine.parse(self.exec_start)
        secret = tuple((name, value) for name, value in self.environment if is_secret_name(name))
        argv = tuple(text for words in line.expanded(self.name, dict(self.environment)) for text in words)
        return Command(argv=argv, env=secret)

    def exec_line_for(self, changed: Command) -> str:
        """ExecStart with the words that differ in `changed` put in."""
        line = ExecLine.parse(self.exec_start)
        return line.rewritten(line.expanded(self.name, dict(self.environment)), changed.argv)

    @property
    def described_environment(self) -> str:
        """Names of variables with the values masked, for the user to see."""
        return " ".join(f"{name}={MASK}" for name, _ in self.environment)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecLine:
    """An ExecStart line.

    Attributes:
        prefix: special characters before the program (`-`, `@`, `:`, `+`, `!`).
        words: program and arguments as written.
    """

    prefix: str
    words: tuple[UnitWord, ...]

    @classmethod
    def parse(cls, line: str) -> "ExecLine":
        """The line; raises ConfigError when it is not one that can be rewritten."""
        match = _PREFIX.match(line)
        prefix = match[0] if match else ""
        words = split_words(line[len(prefix) :])
        if not words:
            raise ConfigError("ExecStart: `a program` must be named, the line is empty.")
        if "@" in prefix:
            raise ConfigError("ExecStart: the prefix `@` (another argv[0]) is not supported; leave it out.")
        if any(word.raw == ";" for word in words):
            raise ConfigError("ExecStart: `one command` must be given, got several with `;` between them.")
        return cls(prefix=prefix, words=words)

    def expanded(self, name: UnitName, environment: dict[str, str]) -> tuple[tuple[str, ...], ...]:
        """For each word the arguments it becomes: one, or any number for a bare `$NAME`."""
        return tuple(
            _variables(_specifiers(word.text, name), environment, is_program=place == 0)
            if ":" not in self.prefix
            else (_specifiers(word.text, name),)
            for place, word in enumerate(self.words)
        )

    def rewritten(self, now: tuple[tuple[str, ...], ...], wanted: tuple[str, ...]) -> str:
        """The line that runs `wanted`; words whose arguments do not change stay as they are written."""
        flat = [text for arguments in now for text in arguments]
        owner = [place for place, arguments in enumerate(now) for _ in arguments]
        blocks = difflib.SequenceMatcher(None, flat, wanted, autojunk=False).get_matching_blocks()
        source = {block.b + step: block.a + step for block in blocks for step in range(block.size)}
        kept = {source[place] for place in source}
        pieces: list[str] = []
        place = 0
        while place < len(wanted):
            whole = self._whole_word(source.get(place), owner, now, place, source, kept)
            if whole is None:
                pieces.append(quote_word(wanted[place], expands_variables=":" not in self.prefix))
                place += 1
            else:
                pieces.append(self.words[whole].raw)
                place += len(now[whole])
        return self.prefix + " ".join(pieces)

    def _whole_word(
        self,
        at: int | None,
        owner: list[int],
        now: tuple[tuple[str, ...], ...],
        place: int,
        source: dict[int, int],
        kept: set[int],
    ) -> int | None:
        """The written word that gives exactly the arguments from `place` on, if there is one."""
        if at is None:
            return None
        word = owner[at]
        first = owner.index(word)
        span = range(first, first + len(now[word]))
        is_whole = at == first and all(
            old in kept and source.get(place + step) == old for step, old in enumerate(span)
        )
        return word if is_whole else None


def unit_digest(unit: Unit, token: str) -> str:
    """Stands for ExecStart, environment and drop-ins without showing them."""
    parts = (token, unit.exec_start, *unit.drop_ins, *(f"{name}={value}" for name, value in unit.environment))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def read_properties(shown: str) -> tuple[tuple[str, str], ...]:
    """`systemctl show` text as pairs; values may hold `=`."""
    pairs = (line.partition("=") for line in shown.split("\n") if "=" in line)
    return tuple((name, value) for name, _, value in pairs)


def read_unit(name: UnitName, shown: str, cat: str) -> Unit:
    """The unit.

    Args:
        name: as the user gave it.
        shown: `systemctl show` with the properties of `SHOWN`.
        cat: `systemctl cat`: fragment and drop-ins in the order in which they are applied.

    Raises:
        ConfigError: there is no such service, or its ExecStart is none that can be changed.
    """
    properties = read_properties(shown)
    state = dict(properties).get("LoadState", "")
    if state != "loaded":
        raise ConfigError(
            f"{name.full}: `the unit is loaded` must hold, got {state or 'nothing'!r}; "
            "`systemctl list-units --type=service` shows what there is."
        )
    paths = {
        word.text
        for key in ("FragmentPath", "DropInPaths")
        for word in split_words(dict(properties).get(key, ""))
    }
    settings = tuple(_settings(cat, paths))
    starts = _list_setting(settings, "ExecStart")
    if len(starts) != 1:
        raise ConfigError(f"{name.full}: `exactly one ExecStart` must be in force, got {len(starts)}.")
    environment: dict[str, str] = {}
    for line in _list_setting(settings, "Environment"):
        environment.update(_assignments(split_words(line), name))
    files = tuple(_specifiers(file.strip(), name) for file in _list_setting(settings, "EnvironmentFile"))
    return Unit(
        name=name,
        properties=properties,
        exec_start=starts[0],
        environment=tuple(environment.items()),
        environment_files=files,
    )


def read_environment_file(text: str) -> dict[str, str]:
    r"""The variables of an environment file: `NAME=value` lines, quotes as a shell has them.

    >>> read_environment_file('# no\nA="x y"\nB=1\\\n2\n')
    {'A': 'x y', 'B': '12'}
    """
    found: dict[str, str] = {}
    for line in _joined(text.split("\n"), glue=""):
        name, equals, value = line.strip().partition("=")
        if equals and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name.strip()):
            found[name.strip()] = _shell_value(value.strip())
    return found


def trial_drop_in(exec_line: str, *, is_trial: bool) -> str:
    """The text of a drop-in that sets ExecStart; a trial's server is not restarted behind our back."""
    lines = ["# Written by spectune; `spectune restore` takes it away.", "[Service]"]
    if not is_trial:
        lines[0] = "# Written by `spectune apply`; `spectune apply --undo` takes it away."
    lines += ["ExecStart=", f"ExecStart={exec_line}"]
    if is_trial:
        lines.append("Restart=no")
    return "\n".join(lines) + "\n"


def _settings(cat: str, paths: set[str]) -> list[tuple[str, str]]:
    """The settings of all [Service] sections, in order; `paths` are the files put together in `cat`."""
    found: list[tuple[str, str]] = []
    section = ""
    for line in _joined(cat.split("\n"), glue=" "):
        text = line.strip()
        if line.removeprefix("# ") in paths:
            section = ""
        elif text.startswith("[") and text.endswith("]"):
            section = text
        elif section == "[Service]" and "=" in text:
            key, _, value = text.partition("=")
            found.append((key.strip(), value.strip()))
    return found


def _joined(lines: list[str], *, glue: str) -> list[str]:
    """Logical lines: a trailing backslash joins, comments are left out, between joined lines too."""
    found: list[str] = []
    held = ""
    for line in lines:
        if line.lstrip().startswith(("#", ";")):
            if not held:
                found.append(line)
            continue
        if line.endswith("\\"):
            held += line[:-1] + glue
            continue
        found.append(held + line)
        held = ""
    return [*found, held] if held else found


def _list_setting(settings: tuple[tuple[str, str], ...], name: str) -> list[str]:
    """The values of a list setting; an empty one takes back those before it."""
    found: list[str] = []
    for key, value in settings:
        if key == name:
            found = [*found, value] if value else []
    return found


def _assignments(words: tuple[UnitWord, ...], name: UnitName) -> dict[str, str]:
    pairs = (word.text.partition("=") for word in words)
    return {key: _specifiers(value, name) for key, equals, value in pairs if equals}


def _specifiers(text: str, name: UnitName) -> str:
    """The text with the unit-name specifiers expanded; others stay, they do not bear on an engine's flags."""
    values = {
        "%": "%", "n": name.full, "N": name.stem, "p": name.prefix, "P": unescape(name.prefix),
        "i": name.instance, "I": unescape(name.instance),
        "j": name.prefix.rpartition("-")[2], "J": unescape(name.prefix.rpartition("-")[2]),
    }  # fmt: skip
    return re.sub(r"%(.)", lambda found: values.get(found[1], found[0]), text)


def _variables(text: str, environment: dict[str, str], *, is_program: bool) -> tuple[str, ...]:
    """One argument, or several for a word that is a bare `$NAME`; a program's name is not expanded."""
    if is_program:
        return (text,)
    bare = re.fullmatch(r"\$([A-Za-z_][A-Za-z0-9_]*)", text)
    if bare is not None:
        return tuple(word.text for word in split_words(environment.get(bare[1], "")))
    return (
        _VARIABLE.sub(
            lambda found: (
                "$" if found[0] == "$$" else environment.get(found[1] or "", "") if found[1] else found[0]
            ),
            text,
        ),
    )


def _shell_value(text: str) -> str:
    pieces: list[str] = []
    quote = ""
    place = 0
    while place < len(text):
        char = text[place]
        if char == "\\" and quote != "'" and place + 1 < len(text):
            place += 1
            pieces.append(text[place])
        elif quote and char == quote:
            quote = ""
        elif not quote and char in "\"'":
            quote = char
        else:
            pieces.append(char)
        place += 1
    return "".join(pieces)
