from hypothesis import given
from hypothesis import strategies as st

from spectune.domain.text import whole_characters


@given(st.text())
def test_whole_text_stays_as_it_is(text: str) -> None:
    assert whole_characters(text) == text


@given(st.text(alphabet=st.characters(min_codepoint=0xD7F0, max_codepoint=0xE00F, exclude_categories=())))
def test_whatever_comes_can_be_written_as_utf8(text: str) -> None:
    assert whole_characters(text).encode().decode() == whole_characters(text)


def test_a_character_split_in_two_is_joined() -> None:
    assert whole_characters("a" + "\ud83d" + "\ude00") == "a😀"
