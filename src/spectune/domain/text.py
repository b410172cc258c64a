"""Text from outside as text that can be stored, sent and shown."""

import re

_TERMINAL_COMMAND = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|.)")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def is_digits(text: str) -> bool:
    """Whether it is digits 0 to 9 and nothing else: `str.isdecimal` takes other scripts' digits as well.

    >>> is_digits("12"), is_digits("\u0663"), is_digits("")
    (True, False, False)
    """
    return text.isascii() and text.isdecimal()


def shortened(text: str, limit: int = 80) -> str:
    """The text, its middle cut out where it is longer than `limit`: for what a user gave and is told again.

    >>> shortened("a" * 50 + "b" * 50, 11)
    'aaaaa…bbbbb'
    """
    half = (limit - 1) // 2
    return text if len(text) <= limit else f"{text[:half]}…{text[-half:]}"


def whole_characters(text: str) -> str:
    r"""The text with surrogate pairs joined and lone halves replaced.

    JSON can spell half a character (`"\ud83d"`), and some servers split one over two stream chunks; UTF-8,
    and with it SQLite and every file we write, has no halves.

    >>> whole_characters("\ud83d\ude00 \ud83d")
    '😀 \ufffd'
    """
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def printable(text: str) -> str:
    r"""The text without colours and other commands to a terminal; line breaks and tabs stay.

    >>> printable("\x1b[31mERROR\x1b[0m: bell\x07")
    'ERROR: bell\ufffd'
    """
    return _CONTROL.sub("\ufffd", _TERMINAL_COMMAND.sub("", text))
