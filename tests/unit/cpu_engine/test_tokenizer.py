"""Text survives the tokenizer, whole or piece by piece."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.cpu_engine.tokenizer import Tokenizer
from spectune.cpu_engine.weights import MODELS

TOKENIZER = Tokenizer(MODELS / "target" / "tokenizer.json")


@given(st.text(max_size=80))
def test_no_token_stands_for_more_bytes_than_the_longest(text: str) -> None:
    assert len(text.encode()) <= TOKENIZER.longest_token * len(TOKENIZER.encode(text))


@given(st.text(max_size=80))
def test_any_text_round_trips_token_by_token(text: str) -> None:
    ids = TOKENIZER.encode(text)
    decoder = TOKENIZER.decoder()
    pieces = [decoder.feed([token]) for token in ids]
    assert "".join(pieces) + decoder.feed([], final=True) == text


def test_a_character_is_shown_only_when_all_its_bytes_are_there() -> None:
    ids = TOKENIZER.encode("🜁")
    assert len(ids) > 1
    decoder = TOKENIZER.decoder()
    assert [decoder.feed([token]) for token in ids] == [""] * (len(ids) - 1) + ["🜁"]


def test_an_unfinished_character_ends_as_the_replacement_character() -> None:
    decoder = TOKENIZER.decoder()
    assert decoder.feed(TOKENIZER.encode("é")[:1], final=True) in ("\ufffd", "é")
    assert decoder.feed([], final=True) == ""


@pytest.mark.parametrize("token", [0])
def test_special_tokens_have_no_text(token: int) -> None:
    assert TOKENIZER.decoder().feed([token], final=True) == ""
    assert TOKENIZER.vocab_size == 4096
