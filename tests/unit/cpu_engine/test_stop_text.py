"""Stop texts are found however the stream is cut, and nothing of them leaks."""

from hypothesis import given
from hypothesis import strategies as st

from spectune.cpu_engine.stop_text import StopFinder

letters = st.text(alphabet="ab", max_size=12)


@given(
    st.lists(letters, max_size=6),
    st.lists(st.text(alphabet="ab", min_size=1, max_size=4), min_size=1, max_size=2),
)
def test_shown_text_ends_where_the_first_stop_text_begins(pieces: list[str], stops: list[str]) -> None:
    finder = StopFinder(tuple(stops))
    shown = "".join(finder.feed(piece, final=n == len(pieces) - 1) for n, piece in enumerate(pieces))
    whole = "".join(pieces)
    ends = _first_ends(pieces, stops)
    assert finder.found == (ends is not None)
    assert shown == (whole if ends is None else whole[:ends])


def _first_ends(pieces: list[str], stops: list[str]) -> int | None:
    """Where the text ends for a finder that looks after every piece."""
    text = ""
    for piece in pieces:
        text += piece
        places = [place for stop in stops if (place := text.find(stop)) >= 0]
        if places:
            return min(places)
    return None


def test_without_stop_texts_everything_passes_at_once() -> None:
    assert StopFinder(()).feed("abc") == "abc"
