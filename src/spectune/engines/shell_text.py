"""A shell's command text, split into simple commands whose words keep their place in the text. Pure.

Only as much of the shell's grammar as it takes to find words: quotes, escapes, comments, operators,
redirections and expansions. Nothing is expanded; a word with an expansion says that its value is not known.
"""

from dataclasses import dataclass

_OPERATORS = frozenset(";&|()\n")
_BLANK = frozenset(" \t\r")
_GLOB = frozenset("*?[{")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellWord:
    """One word of a shell text.

    Attributes:
        start, end: where it stands in the text, quotes included.
        value: without its quotes and escapes; expansions are left as they are written.
        is_fixed: whether `value` is what the program gets: no expansion in it.
    """

    start: int
    end: int
    value: str
    is_fixed: bool


def simple_commands(text: str) -> tuple[tuple[ShellWord, ...], ...]:
    """The words of each simple command, redirections left out; empty ones are not given.

    >>> [[word.value for word in words] for words in simple_commands("cd 'a b' && exec run --n=1 > log")]
    [['cd', 'a b'], ['exec', 'run', '--n=1']]
    """
    return _Reader(text).commands()


class _Reader:
    def __init__(self, text: str) -> None:
        self._text, self._place = text, 0

    def commands(self) -> tuple[tuple[ShellWord, ...], ...]:
        found: list[list[ShellWord]] = [[]]
        is_target = False  # the next word is a redirection's
        while self._place < len(self._text):
            letter = self._text[self._place]
            if self._text.startswith("\\\n", self._place):
                self._place += 2
            elif letter in _BLANK:
                self._place += 1
            elif letter == "#":
                self._skip_comment()
            elif letter in "<>":
                self._skip_redirection()
                is_target = True
            elif letter in _OPERATORS:
                self._place += 1
                found.append([])
            else:
                word = self._word()
                is_number = word.value.isdecimal() and self._text[word.end : word.end + 1] in ("<", ">")
                if not is_target and not is_number:
                    found[-1].append(word)
                is_target = False
        return tuple(tuple(words) for words in found if words)

    def _skip_comment(self) -> None:
        end = self._text.find("\n", self._place)
        self._place = len(self._text) if end < 0 else end

    def _skip_redirection(self) -> None:
        while self._text[self._place : self._place + 1] in ("<", ">", "&", "|"):
            self._place += 1

    def _word(self) -> ShellWord:
        start, pieces, is_fixed = self._place, [], True
        while self._place < len(self._text):
            letter = self._text[self._place]
            if letter in _BLANK or letter in _OPERATORS or letter in "<>":
                break
            piece, fixed = self._piece(letter)
            pieces.append(piece)
            is_fixed = is_fixed and fixed
        value = "".join(pieces)
        if self._text[start : start + 1] == "~":
            is_fixed = False
        self._place = min(self._place, len(self._text))  # an unfinished quote
        return ShellWord(start=start, end=self._place, value=value, is_fixed=is_fixed)

    def _piece(self, letter: str) -> tuple[str, bool]:
        """The next part of a word and whether the shell leaves it as it is."""
        if letter == "'":
            return self._until("'"), True
        if letter == '"':
            return self._double_quoted()
        if letter == "\\":
            escaped = self._text[self._place + 1 : self._place + 2]
            self._place += 2
            return ("" if escaped == "\n" else escaped), True
        if letter in "$`":
            return self._expansion(), False
        self._place += 1
        return letter, letter not in _GLOB

    def _until(self, quote: str) -> str:
        start = self._place + 1
        end = self._text.find(quote, start)
        end = len(self._text) if end < 0 else end
        self._place = end + 1
        return self._text[start:end]

    def _double_quoted(self) -> tuple[str, bool]:
        self._place += 1
        pieces, is_fixed = [], True
        while self._place < len(self._text) and self._text[self._place] != '"':
            letter = self._text[self._place]
            following = self._text[self._place + 1 : self._place + 2]
            if letter == "\\" and following and following in '$`"\\\n':
                pieces.append("" if following == "\n" else following)
                self._place += 2
            elif letter in "$`":
                pieces.append(self._expansion())
                is_fixed = False
            else:
                pieces.append(letter)
                self._place += 1
        self._place += 1
        return "".join(pieces), is_fixed

    def _expansion(self) -> str:
        """`$NAME`, `${…}`, `$(…)` or backticks, as written."""
        start = self._place
        if self._text[start] == "`":
            self._until("`")
        elif self._text.startswith(("$(", "${"), start):
            self._skip_nested(*(("(", ")") if self._text[start + 1] == "(" else ("{", "}")))
        else:
            self._place += 1
        return self._text[start : self._place]

    def _skip_nested(self, opening: str, closing: str) -> None:
        self._place += 1
        depth = 0
        while self._place < len(self._text):
            letter = self._text[self._place]
            depth += (letter == opening) - (letter == closing)
            self._place += 1
            if depth == 0:
                return
