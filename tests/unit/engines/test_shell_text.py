import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.engines.shell_text import simple_commands


def words(text: str) -> list[list[str]]:
    return [[word.value for word in command] for command in simple_commands(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a b", [["a", "b"]]),
        ("a 'b c' \"d e\" f\\ g", [["a", "b c", "d e", "f g"]]),
        ("a;b && c | d & e\nf", [["a"], ["b"], ["c"], ["d"], ["e"], ["f"]]),
        ("a \\\n  b", [["a", "b"]]),
        ("a > out 2>&1 b < in", [["a", "b"]]),
        ("a # b c\nd", [["a"], ["d"]]),
        ("a#b '#'", [["a#b", "#"]]),
        ("a $(b; c | d) `e f` ${g h}", [["a", "$(b; c | d)", "`e f`", "${g h}"]]),
        ("a 'unfinished", [["a", "unfinished"]]),
        ("a $(unfinished", [["a", "$(unfinished"]]),
        ("", []),
    ],
)
def test_words_of_simple_commands(text: str, expected: list[list[str]]) -> None:
    assert words(text) == expected


@pytest.mark.parametrize("word", ["$A", '"$A"', "`a`", "*.yaml", "~/m", "a{b,c}", "$((1+1))"])
def test_what_a_shell_expands_is_not_fixed(word: str) -> None:
    ((_, found),) = simple_commands(f"x {word}")
    assert not found.is_fixed


@pytest.mark.parametrize("word", ["'$A'", '"a b"', "a\\$b", '"\\$A"', "'*'", "a~b"])
def test_what_is_quoted_is(word: str) -> None:
    ((_, found),) = simple_commands(f"x {word}")
    assert found.is_fixed


@given(st.lists(st.text(max_size=8).filter(lambda word: "\x00" not in word), min_size=1, max_size=6))
def test_quoted_words_come_back(argv: list[str]) -> None:
    text = shlex.join(argv)
    (found,) = simple_commands(text)
    assert [word.value for word in found] == argv
    assert all(word.is_fixed for word in found)
    assert [shlex.split(text[word.start : word.end]) for word in found] == [[word] for word in argv]


@given(st.text(max_size=60))
def test_no_text_is_too_odd(text: str) -> None:
    for command in simple_commands(text):
        for word in command:
            assert 0 <= word.start < word.end <= len(text)
