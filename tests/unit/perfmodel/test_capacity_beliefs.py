from hypothesis import given
from hypothesis import strategies as st

from spectune.perfmodel.capacity_beliefs import believed_curves
from spectune.perfmodel.evidence import CapacityCurve, Cell, Setting


def at(curve: CapacityCurve, draft_tokens: int) -> int:
    return curve.limit(Cell(setting=Setting.chain(draft_tokens - 1), concurrency=1))


def test_a_line_through_published_readbacks_gives_twelve_at_four_steps() -> None:
    curves = {c.law: c for c in believed_curves({2: 26, 3: 21, 4: 17}, range(1, 8))}
    assert at(curves["linear"], 5) == 12
    assert at(curves["reciprocal"], 5) == 15


def test_equal_readbacks_mean_that_drafts_cost_no_capacity() -> None:
    (curve,) = believed_curves({1: 64, 4: 64}, range(1, 9))
    assert {at(curve, tokens) for tokens in range(1, 9)} == {64}


def test_one_readback_leaves_several_hypotheses() -> None:
    curves = believed_curves({5: 12}, range(1, 9))
    assert len({at(c, 2) for c in curves}) > 1
    assert {at(c, 5) for c in curves} == {12}


def test_nothing_read_back_is_nothing_believed() -> None:
    assert believed_curves({}, range(1, 9)) == ()


@given(st.dictionaries(st.integers(1, 9), st.integers(1, 200), min_size=1, max_size=4), st.integers(1, 12))
def test_beliefs_keep_readbacks_that_fall_and_never_grow(readbacks: dict[int, int], most: int) -> None:
    falling: dict[int, int] = {}
    for tokens, requests in sorted(readbacks.items()):
        falling[tokens] = min([requests, *falling.values()])
    for curve in believed_curves(falling, range(1, most + 1)):  # the value refuses growing curves
        assert all(at(curve, tokens) == requests for tokens, requests in falling.items())
        assert all(requests >= 1 for _, _, requests in curve.running)
