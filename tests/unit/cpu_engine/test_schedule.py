"""Schedules: read, written, and run without losing a token or the draft's cache."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.cpu_engine.engine import Engine
from spectune.cpu_engine.messages import Submit
from spectune.cpu_engine.options import EngineOptions, Method
from spectune.cpu_engine.schedule import Range, Schedule, fixed, read_schedule

if TYPE_CHECKING:
    from tests.unit.cpu_engine.conftest import TinyModels

Generate = Callable[[Engine, list[Submit]], dict[int, list[int]]]


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9)), min_size=1, max_size=5))
def test_a_schedule_is_read_as_it_is_written_and_covers_every_batch(parts: list[tuple[int, int]]) -> None:
    low, ranges = 1, []
    for width, steps in parts[:-1]:
        ranges.append(Range(low, low + width - 1, steps))
        low += width
    schedule = Schedule((*ranges, Range(low, None, parts[-1][1])))
    assert read_schedule(str(schedule)) == schedule
    for batch in range(1, low + 3):
        part = next(r for r in schedule.ranges if r.low <= batch and (r.high is None or batch <= r.high))
        assert schedule.steps_for(batch) == part.num_steps


@pytest.mark.parametrize(
    "text", ["", "1-4", "1-4:x", "2-:1", "1-4:2", "1-4:2,6-:1", "4-1:2,5-:0", "1-:2,3-:1", "1-:-1", "١-:2"]
)
def test_ranges_that_do_not_join_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must"):
        read_schedule(text)


def options(method: Method, schedule: Schedule) -> EngineOptions:
    most = schedule.max_steps
    return EngineOptions(
        method=method, num_steps=most, num_draft_tokens=most + 1, schedule=schedule,
        context_length=256, cache_bytes=2**24,
    )  # fmt: skip


@pytest.mark.parametrize("method", ["eagle", "draft_model", "ngram"])
def test_switching_up_and_down_gives_plain_decodings_tokens(
    tiny: "TinyModels", generate: Generate, requests: list[Submit], method: Method
) -> None:
    plain = generate(tiny.engine(EngineOptions(context_length=256, cache_bytes=2**24), 6), requests)
    engine = tiny.engine(options(method, read_schedule("1-2:4,3-4:1,5-:0")), 6)
    assert generate(engine, requests) == plain
    assert engine.stats.verify_steps > 0
    assert engine.stats.undrafted_steps > 0


@pytest.mark.parametrize("method", ["eagle", "draft_model"])
def test_the_drafts_cache_is_whole_after_steps_without_drafts(tiny: "TinyModels", method: Method) -> None:
    request = Submit(request_id=1, prompt=(1, 2, 3, 4, 5), max_tokens=60, stops_at_eos=False)
    idle = tiny.engine(options(method, fixed(0)), 1)
    idle.submit(request)
    busy = tiny.engine(options(method, fixed(3)), 1)
    busy.submit(request)
    for engine in (idle, busy):
        while engine.table.length[0] < 40:
            engine.step()
    known = int(min(idle.table.pending_start[0], busy.table.pending_start[0]))
    assert known > 30
    ours, theirs = idle._drafter.cache, busy._drafter.cache
    assert ours is not None
    assert theirs is not None
    for part, other in zip(ours.layers[0], theirs.layers[0], strict=True):
        np.testing.assert_allclose(part[0, :, :known], other[0, :, :known], atol=2e-5)


def test_a_planted_fault_spoils_one_token_in_so_many_and_only_where_drafts_are_verified(
    tiny: "TinyModels", generate: Generate, requests: list[Submit]
) -> None:
    greedy = [replace(request, temperature=0.0, stops_at_eos=False) for request in requests]
    off = EngineOptions(context_length=256, cache_bytes=2**24)
    plain = generate(tiny.engine(off, 4), greedy)
    assert generate(tiny.engine(replace(off, corrupt_every=50), 4), greedy) == plain
    faulty = options("draft_model", fixed(3))
    assert generate(tiny.engine(faulty, 4), greedy) == plain
    spoiled = generate(tiny.engine(replace(faulty, corrupt_every=50), 4), greedy)
    assert spoiled != plain
