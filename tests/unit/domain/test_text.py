import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.domain.text import is_digits, printable, shortened, whole_characters


@given(st.text())
def test_whole_text_stays_as_it_is(text: str) -> None:
    assert whole_characters(text) == text


@given(st.text(alphabet=st.characters(min_codepoint=0xD7F0, max_codepoint=0xE00F, exclude_categories=())))
def test_whatever_comes_can_be_written_as_utf8(text: str) -> None:
    assert whole_characters(text).encode().decode() == whole_characters(text)


def test_a_character_split_in_two_is_joined() -> None:
    assert whole_characters("a" + "\ud83d" + "\ude00") == "a😀"


@given(st.text())
def test_nothing_printable_commands_a_terminal(text: str) -> None:
    assert not set(printable(text)) & {
        chr(code) for code in (*range(32), *range(127, 160)) if code not in (9, 10)
    }


def test_a_title_set_by_a_log_line_goes_with_its_text() -> None:
    assert printable("a\x1b]0;title\x07b\x1b[1;31mc\x1b[K") == "abc"


@pytest.mark.parametrize("text", ["", "-1", "1.0", " 1", "٣", "①", "1٣", "x"])
def test_only_ten_digits_are_digits(text: str) -> None:
    assert not is_digits(text)


@given(st.text(max_size=100), st.integers(3, 60))
def test_shortened_text_fits_and_keeps_both_ends(text: str, limit: int) -> None:
    short = shortened(text, limit)
    assert len(short) <= limit
    assert short == text or (text.startswith(short.split("…")[0]) and "…" in short)
