import itertools

from hypothesis import given
from hypothesis import strategies as st

from spectune.loadgen.sse import SseParser

STREAM = (
    b"\xef\xbb\xbf: hello\n\ndata: one\n\nevent: x\r\ndata:two\r\ndata: more\r\n\r\n"
    b"data: \xc3\xa4\xf0\x9f\x90\x8d\r\rid: 7\n\ndata:\n\ndata: [DONE]\n\n"
)
EVENTS = [b"one", b"two\nmore", "ä🐍".encode(), b"", b"[DONE]"]


def test_all_line_ends_comments_and_fields_are_understood() -> None:
    assert SseParser().feed(STREAM) == EVENTS


@given(cuts=st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_events_do_not_depend_on_how_bytes_are_split(cuts: list[int]) -> None:
    parser = SseParser()
    edges = [0, *sorted(cuts), len(STREAM)]
    found = [event for start, end in itertools.pairwise(edges) for event in parser.feed(STREAM[start:end])]
    assert found == EVENTS
    assert parser.is_between_events


def test_bytes_one_by_one_give_the_same_events() -> None:
    parser = SseParser()
    assert [event for byte in STREAM for event in parser.feed(bytes([byte]))] == EVENTS


def test_an_unfinished_event_is_not_given() -> None:
    parser = SseParser()
    assert parser.feed(b"data: half\n") == []
    assert not parser.is_between_events
