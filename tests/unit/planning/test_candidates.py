from spectune.perfmodel.evidence import Setting
from spectune.planning.candidates import far_end, opening, spread
from spectune.planning.goals import Choice

CHOICES = tuple(Choice(setting=Setting.chain(k)) for k in (0, 1, 2, 4, 8, 12))


def of(*steps: int) -> tuple[Choice, ...]:
    return tuple(Choice(setting=Setting.chain(k)) for k in steps)


def test_the_longest_draft_up_to_eight_comes_first() -> None:
    assert opening(CHOICES, (), frozenset()) == of(8)[0]


def test_the_next_longest_follows_one_that_could_not_be_measured() -> None:
    assert opening(CHOICES, of(8), frozenset()) == of(4)[0]


def test_once_a_draft_was_measured_value_decides() -> None:
    assert opening(CHOICES, of(8), frozenset(of(8))) is None


def test_the_shortest_draft_spans_the_others_with_the_first() -> None:
    assert far_end(CHOICES, of(8), frozenset(of(8))) == of(1)[0]
    assert far_end(CHOICES, of(8, 0), frozenset(of(8, 0))) == of(1)[0]


def test_no_far_end_before_a_draft_was_measured_or_after_two_were() -> None:
    assert far_end(CHOICES, of(8), frozenset()) is None
    assert far_end(CHOICES, of(8, 4), frozenset(of(8, 4))) is None
    assert far_end(of(0, 8), of(8), frozenset(of(8))) is None


def test_a_longer_draft_is_not_taken_for_the_shortest() -> None:
    """Beyond eight steps the shortest draft is the opening, and what waits is longer."""
    assert opening(of(1, 12, 16), (), frozenset()) == of(1)[0]
    assert far_end(of(1, 12, 16), of(1), frozenset(of(1))) is None


def test_off_is_no_opening() -> None:
    assert opening(of(0), (), frozenset()) is None


def test_one_or_two_levels_are_their_own_spread() -> None:
    assert spread((4,)) == (4,)
    assert spread((1, 32)) == (1, 32)
