import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.errors import ConfigError
from spectune.launch.systemd_quoting import quote_word, split_words


def texts(line: str) -> list[str]:
    return [word.text for word in split_words(line)]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("a  b\tc", ["a", "b", "c"]),
        ('"a b" c', ["a b", "c"]),
        ("'a \"b\"' c", ['a "b"', "c"]),
        (r'"a\"b" c\\d', ['a"b', r"c\d"]),
        (r"x\x20y \u00e9 \101", ["x y", "é", "A"]),
        ("--json='{\"k\": 1}'", ['--json={"k": 1}']),
        ('""', [""]),
        ("", []),
        (r"a \; b", ["a", ";", "b"]),
        ("'$(reboot)' `x` |", ["$(reboot)", "`x`", "|"]),
    ],
)
def test_lines_are_split_as_systemd_does(line: str, words: list[str]) -> None:
    assert texts(line) == words


@pytest.mark.parametrize("line", ['"open', "'open", "end\\", r"\q", r"\x2", r"\x00"])
def test_what_systemd_refuses_is_refused(line: str) -> None:
    with pytest.raises(ConfigError, match="ExecStart"):
        split_words(line)


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
def test_a_quoted_word_comes_back_as_it_was(word: str) -> None:
    quoted = quote_word(word)
    assert "\n" not in quoted
    (back,) = split_words(quoted)
    assert back.text.replace("%%", "%").replace("$$", "$") == word
    assert back.raw == quoted


@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), max_size=5))
def test_words_do_not_run_into_each_other(words: list[str]) -> None:
    line = " ".join(quote_word(word, expands_variables=False) for word in words)
    assert [text.replace("%%", "%") for text in texts(line)] == words


def test_a_nul_is_refused() -> None:
    with pytest.raises(ConfigError, match="NUL"):
        quote_word("a\0b")


def test_plain_words_stay_plain() -> None:
    assert quote_word("--speculative-num-steps") == "--speculative-num-steps"
    assert quote_word("a$b", expands_variables=False) == '"a$b"'
