r"""systemd's own quoting of words in unit files, read and written. Pure.

Source: systemd.syntax(7) and systemd.service(5), "COMMAND LINES", systemd 252. It is not the shell's:
`'…'` and `"…"` both know C escapes, `%` begins a specifier, `$NAME` and `${NAME}` a variable, and a
doubled `%%` or `$$` is the character itself.
"""

import re
from dataclasses import dataclass

from spectune.errors import ConfigError

_ESCAPES = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", '"': '"', "'": "'", "s": " ",
}  # fmt: skip
_NUMERIC = (("x", 2, 16), ("u", 4, 16), ("U", 8, 16))
_PLAIN = re.compile(r"[A-Za-z0-9_./:=,+@\[\]{}*?~^!#-]+")
_BLANK = " \t\n\r"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitWord:
    """A word of a command line.

    Attributes:
        raw: as written, quotes and all.
        text: without quotes and escapes; specifiers and variables not yet expanded.
    """

    raw: str
    text: str


def split_words(line: str) -> tuple[UnitWord, ...]:
    r"""The words of one logical line.

    Raises:
        ConfigError: a quote that is not closed or an escape that systemd does not know.

    >>> [word.text for word in split_words(r'''/bin/x "a b"  'c\x20d' e\\f''')]
    ['/bin/x', 'a b', 'c d', 'e\\f']
    """
    words: list[UnitWord] = []
    place = 0
    while place < len(line):
        if line[place] in _BLANK:
            place += 1
            continue
        end, text = _read_word(line, place)
        words.append(UnitWord(raw=line[place:end], text=text))
        place = end
    return tuple(words)


def quote_word(word: str, *, expands_variables: bool = True) -> str:
    r"""The word as it must be written so that systemd passes exactly it.

    Args:
        word: any text without NUL.
        expands_variables: False under the `:` prefix, where `$` is a plain character.

    >>> quote_word("100% of $HOME")
    '"100%% of $$HOME"'
    """
    if "\0" in word:
        raise ConfigError(f"word {word!r}: `no NUL character` must hold.")
    doubled = word.replace("%", "%%")
    if expands_variables:
        doubled = doubled.replace("$", "$$")
    if _PLAIN.fullmatch(doubled) and doubled != ";":
        return doubled
    return '"' + "".join(_escaped(char) for char in doubled) + '"'


def _escaped(char: str) -> str:
    match char:
        case "\\" | '"':
            return f"\\{char}"
        case "\n":
            return "\\n"
        case _ if char < " " or char == "\x7f":
            return f"\\x{ord(char):02x}"
        case _:
            return char


def _read_word(line: str, start: int) -> tuple[int, str]:
    """The place after the word that begins at `start`, and its text."""
    text: list[str] = []
    quote = ""
    place = start
    while place < len(line):
        char = line[place]
        if char == "\\":
            place, piece = _read_escape(line, place + 1)
            text.append(piece)
            continue
        if quote:
            if char == quote:
                quote = ""
            else:
                text.append(char)
        elif char in "\"'":
            quote = char
        elif char in _BLANK:
            break
        else:
            text.append(char)
        place += 1
    if quote:
        raise ConfigError(f"ExecStart: `every quote is closed` must hold, got {line[start : start + 60]!r}.")
    return place, "".join(text)


def _read_escape(line: str, place: int) -> tuple[int, str]:
    if place >= len(line):
        raise ConfigError("ExecStart: `a character follows the last backslash` must hold.")
    char = line[place]
    if char in _ESCAPES:
        return place + 1, _ESCAPES[char]
    for letter, digits, base in _NUMERIC:
        if char == letter:
            return _read_number(line, place + 1, digits, base)
    if char in "01234567":
        return _read_number(line, place, 3, 8)
    if char == ";":
        return place + 1, ";"
    raise ConfigError(f"ExecStart: `an escape systemd knows` must be used, got \\{char}.")


def _read_number(line: str, place: int, digits: int, base: int) -> tuple[int, str]:
    number = line[place : place + digits]
    try:
        value = int(number, base)
    except ValueError:
        value = 0
    if len(number) < digits or not 0 < value < 0x110000:
        raise ConfigError(f"ExecStart: `a numeric escape has {digits} digits` must hold, got {number!r}.")
    return place + digits, chr(value)
