import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.loadgen.stream_content import read_stream


def event(chunk: object) -> bytes:
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


def completion(text: str, *, tokens: int | None = None, reason: str | None = None) -> bytes:
    chunk: dict[str, object] = {"choices": [{"index": 0, "text": text, "finish_reason": reason}]}
    if tokens is not None:
        chunk["usage"] = {"prompt_tokens": 5, "completion_tokens": tokens}
    return event(chunk)


def final_usage(tokens: int) -> bytes:
    return event({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": tokens}})


DONE = b"data: [DONE]\n\n"
WHOLE = [
    (1.0, completion("a", tokens=1)),
    (2.0, completion("bcd", tokens=4)),
    (3.0, completion("", tokens=4, reason="stop")),
    (3.1, final_usage(5)),
    (3.2, DONE),
]


def test_chunks_tokens_and_usage_are_kept_apart() -> None:
    content = read_stream(WHOLE)
    assert content.chunk_times_s == (1.0, 2.0)
    assert content.chunk_tokens == (1, 4)
    assert (content.prompt_tokens, content.output_tokens) == (5, 5)
    assert (content.text, content.finish_reason, content.error) == ("abcd", "stop", "")


def test_a_token_without_text_yet_is_content() -> None:
    content = read_stream([(1.0, completion("", tokens=1)), (2.0, completion("ä", tokens=2, reason="stop"))])
    assert content.chunk_times_s == (1.0, 2.0)


def test_without_continuous_usage_there_are_no_chunk_tokens() -> None:
    content = read_stream(
        [(1.0, completion("a")), (2.0, completion("b", reason="length")), (2.1, final_usage(7))]
    )
    assert content.chunk_tokens == ()
    assert content.output_tokens == 7


def test_usage_on_some_chunks_only_is_not_continuous() -> None:
    content = read_stream(
        [(1.0, completion("a", tokens=1)), (2.0, completion("b", reason="length")), (3.0, final_usage(2))]
    )
    assert content.chunk_tokens == ()


def test_chat_deltas_reasoning_and_tool_calls_are_content() -> None:
    deltas: list[dict[str, object]] = [
        {"role": "assistant"},
        {"reasoning_content": "hm"},
        {"content": "yes"},
        {"tool_calls": [{"index": 0}]},
    ]
    pieces = [(float(place), event({"choices": [{"delta": delta}]})) for place, delta in enumerate(deltas)]
    content = read_stream([*pieces, (9.0, final_usage(3)), (9.0, DONE)])
    assert content.chunk_times_s == (1.0, 2.0, 3.0)
    assert content.text == "hmyes"


def test_garbage_is_unreadable() -> None:
    content = read_stream([(1.0, b"data: {not json\n\n"), (1.0, DONE)])
    assert content.is_unreadable
    assert "{not json" in content.error


def test_an_error_event_is_told_and_is_readable() -> None:
    content = read_stream([(1.0, completion("a", tokens=1)), (2.0, event({"error": {"message": "boom"}}))])
    assert "boom" in content.error
    assert not content.is_unreadable


def test_a_stream_cut_short_is_an_error() -> None:
    assert "ended early" in read_stream(WHOLE[:2]).error
    assert "ended early" in read_stream([]).error


def test_a_stream_without_usage_has_no_token_count() -> None:
    assert "usage" in read_stream([(1.0, completion("a", reason="stop")), (1.0, DONE)]).error


@given(cuts=st.lists(st.integers(0, 10_000), max_size=10))
def test_counts_do_not_depend_on_how_bytes_are_split(cuts: list[int]) -> None:
    stream = b"".join(piece for _, piece in WHOLE)
    edges = [0, *sorted(cut % len(stream) for cut in cuts), len(stream)]
    pieces = [(float(start), stream[start:end]) for start, end in itertools.pairwise(edges)]
    content, whole = read_stream(pieces), read_stream(WHOLE)
    assert (content.chunk_tokens, content.text) == (whole.chunk_tokens, whole.text)


@pytest.mark.parametrize("tokens", [-1, True, 2**31, 3.0, "3"])
def test_a_token_count_that_cannot_be_true_makes_the_stream_unreadable(tokens: object) -> None:
    chunk = {"choices": [{"text": "a", "finish_reason": "stop"}], "usage": {"completion_tokens": tokens}}
    content = read_stream([(1.0, event(chunk)), (1.1, DONE)])
    assert "whole numbers" in content.error
    assert content.is_unreadable
    assert content.chunk_tokens == ()


def test_a_token_count_that_falls_makes_the_stream_unreadable() -> None:
    content = read_stream([(1.0, completion("a", tokens=9)), (2.0, completion("b", tokens=8)), (2.1, DONE)])
    assert "never falls" in content.error


def test_half_characters_are_joined_over_chunks_or_replaced() -> None:
    halves = [completion("\ud83d"), completion("\ude00"), completion(" \ud83d", reason="st\udfffop")]
    content = read_stream([(float(n), piece) for n, piece in enumerate([*halves, final_usage(3), DONE])])
    assert (content.text, content.finish_reason) == ("😀 \ufffd", "st\ufffdop")
