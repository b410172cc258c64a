import pytest

from spectune.engines.json_answer import JsonAnswer
from spectune.errors import ProtocolError


@pytest.mark.parametrize("text", ["", "<html>", "[1]", "null", "{", "[" * 100_000])
def test_what_is_no_object_is_refused(text: str) -> None:
    with pytest.raises(ProtocolError, match="/info"):
        JsonAnswer(text, source="/info")


def test_a_mistyped_key_is_named() -> None:
    answer = JsonAnswer('{"n": "3", "flag": true, "t": 1}', source="/info")
    with pytest.raises(ProtocolError, match="n is a whole number"):
        answer.optional_int("n")
    with pytest.raises(ProtocolError, match="flag is a whole number"):
        answer.optional_int("flag")
    with pytest.raises(ProtocolError, match="t is a string"):
        answer.optional_text("t")


def test_null_and_missing_are_none_but_told_apart() -> None:
    answer = JsonAnswer('{"a": null}', source="/info")
    assert answer.optional_int("a") is None
    assert answer.optional_text("b") is None
    assert answer.has("a")
    assert not answer.has("b")


def test_half_a_character_in_a_text_is_replaced() -> None:
    assert JsonAnswer('{"version": "1\\ud800"}', source="/info").optional_text("version") == "1\ufffd"
