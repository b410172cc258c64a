"""Counting steps."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spectune.cpu_engine.stats import Stats


@given(
    st.lists(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=6), max_size=4)
)
def test_positions_add_up_to_the_accepted_tokens(steps: list[list[tuple[int, int]]]) -> None:
    stats = Stats()
    for step in steps:
        drafted = np.array([d for d, _ in step])
        accepted = np.minimum(drafted, [a for _, a in step])
        stats.count_step(drafted, accepted)
    assert sum(stats.accepted_per_position) == stats.accepted_tokens <= stats.drafted_tokens
    assert stats.accepted_per_position == sorted(stats.accepted_per_position, reverse=True)
    assert stats.verify_steps + stats.undrafted_steps == sum(map(len, steps))
