"""The engine as a whole: lossless for every setting, honest counters, slots that come free."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from spectune.cpu_engine.engine import Engine
from spectune.cpu_engine.messages import Submit
from spectune.cpu_engine.options import EngineOptions, Method

if TYPE_CHECKING:
    from tests.unit.cpu_engine.conftest import TinyModels

Generate = Callable[[Engine, list[Submit]], dict[int, list[int]]]
OFF = EngineOptions(context_length=256, cache_bytes=2**24)


def chain(method: Method, num_steps: int) -> EngineOptions:
    return replace(OFF, method=method, num_steps=num_steps, num_draft_tokens=num_steps + 1)


def tree(method: Method, num_steps: int, topk: int, tokens: int) -> EngineOptions:
    return replace(OFF, method=method, num_steps=num_steps, topk=topk, num_draft_tokens=tokens)


SETTINGS = [
    *[chain(method, steps) for method in ("eagle", "draft_model", "ngram") for steps in (1, 2, 5)],
    tree("eagle", 3, 2, 6), tree("eagle", 1, 4, 5),
    tree("draft_model", 2, 3, 8), tree("draft_model", 4, 2, 11),
]  # fmt: skip


@pytest.fixture(scope="session")
def plain(tiny: "TinyModels", generate: Generate, requests: list[Submit]) -> dict[int, list[int]]:
    """What plain decoding gives, one request at a time."""
    outputs: dict[int, list[int]] = {}
    engine = tiny.engine(OFF, 1)
    for request in requests:
        outputs |= generate(engine, [request])
    return outputs


@pytest.mark.parametrize("num_slots", [1, 3, 24])
@pytest.mark.parametrize(
    "options", SETTINGS, ids=lambda o: f"{o.method}-{o.num_steps}-{o.topk}-{o.num_draft_tokens}"
)
def test_every_setting_gives_plain_decodings_tokens(
    tiny: "TinyModels", generate: Generate, requests: list[Submit], plain: dict[int, list[int]],
    options: EngineOptions, num_slots: int,
) -> None:  # fmt: skip
    engine = tiny.engine(options, num_slots)
    assert generate(engine, requests) == plain
    assert engine.stats.drafted_tokens > 0


def test_batches_without_speculation_give_the_same_tokens(
    tiny: "TinyModels", generate: Generate, requests: list[Submit], plain: dict[int, list[int]]
) -> None:
    assert generate(tiny.engine(OFF, 7), requests) == plain


def test_a_draft_close_to_the_target_is_accepted_at_every_depth(
    tiny: "TinyModels", generate: Generate, requests: list[Submit]
) -> None:
    engine = tiny.engine(chain("draft_model", 4), 4)
    generate(engine, requests)
    counts = engine.stats.accepted_per_position
    assert sum(counts) == engine.stats.accepted_tokens
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > 0


@pytest.mark.parametrize("options", SETTINGS[:9:2], ids=lambda o: f"{o.method}-{o.num_steps}")
def test_emitted_tokens_are_firsts_accepted_and_steps_up_to_the_final_cut(
    tiny: "TinyModels", generate: Generate, requests: list[Submit], options: EngineOptions
) -> None:
    engine = tiny.engine(options, 5)
    outputs = generate(engine, requests)
    stats = engine.stats
    emitted = sum(len(tokens) for tokens in outputs.values())
    produced = len(requests) + stats.accepted_tokens + stats.verify_steps + stats.undrafted_steps
    assert stats.generated_tokens == emitted
    assert emitted <= produced <= emitted + len(requests) * options.num_draft_tokens
    assert stats.requests == len(requests)
    assert (stats.running, stats.waiting, stats.used_tokens) == (0, 0, 0)


@pytest.mark.parametrize(
    "options", [chain("draft_model", 3), tree("draft_model", 3, 2, 7)], ids=["chain", "tree"]
)
def test_the_cache_after_rejections_equals_a_fresh_prefill(
    tiny: "TinyModels", options: EngineOptions
) -> None:
    prompt = tuple(range(1, 20))
    engine = tiny.engine(options, 1)
    engine.submit(Submit(request_id=1, prompt=prompt, max_tokens=60, stops_at_eos=False))
    for _ in range(12):
        engine.step()
    length = int(engine.table.length[0])
    assert length > len(prompt) + 10
    fresh = tiny.engine(OFF, 1)
    fresh.submit(Submit(request_id=1, prompt=tuple(engine.table.tokens[0, :length].tolist()), max_tokens=2))
    fresh.step()
    for ours, theirs in zip(engine._target.cache.layers, fresh._target.cache.layers, strict=True):
        for part, expected in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(part[0, :, :length], expected[0, :, :length], atol=2e-5)


def test_a_cancelled_request_frees_its_slot_and_the_others_go_on(
    tiny: "TinyModels", generate: Generate, requests: list[Submit], plain: dict[int, list[int]]
) -> None:
    engine = tiny.engine(chain("eagle", 3), 4)
    for request in requests[:6]:
        engine.submit(request)
    engine.step()
    for request in requests[:6]:
        if request.request_id % 2:
            engine.cancel(request.request_id)
    assert engine.stats.running + engine.stats.waiting <= 3
    later = generate(engine, requests[6:])
    for request in requests[6:]:
        assert later[request.request_id] == plain[request.request_id]


def test_requests_over_capacity_wait(tiny: "TinyModels") -> None:
    engine = tiny.engine(OFF, 2)
    for n in range(5):
        engine.submit(Submit(request_id=n, prompt=(1, 2), max_tokens=50, stops_at_eos=False))
    engine.step()
    assert (engine.stats.running, engine.stats.waiting) == (2, 3)


def test_long_prompts_are_taken_in_chunks_between_decode_steps(tiny: "TinyModels") -> None:
    engine = tiny.engine(replace(OFF, prefill_tokens=16), 2)
    engine.submit(Submit(request_id=1, prompt=(1, 2, 3), max_tokens=50, stops_at_eos=False))
    engine.step()
    engine.submit(Submit(request_id=2, prompt=tuple([3] * 100), max_tokens=4, stops_at_eos=False))
    seen = [engine.step().request_ids for _ in range(7)]
    assert all(1 in ids for ids in seen)
    assert [2 in ids for ids in seen] == [False] * 6 + [True]


def test_a_repeated_prompt_is_read_from_the_prefix_cache_until_it_is_flushed(
    tiny: "TinyModels", generate: Generate
) -> None:
    for options in (OFF, chain("eagle", 3), chain("draft_model", 3)):
        engine = tiny.engine(options, 2)
        first = Submit(request_id=1, prompt=tuple(range(1, 23)) * 3, max_tokens=20, stops_at_eos=False)
        outputs = generate(engine, [first])
        assert engine.stats.cached_tokens == 0
        again = generate(engine, [replace(first, request_id=2)])
        assert again[2] == outputs[1]
        assert engine.stats.cached_tokens == len(first.prompt) - 1
        assert engine.flush()
        assert generate(engine, [replace(first, request_id=3)])[3] == outputs[1]
        assert engine.stats.cached_tokens == len(first.prompt) - 1


def test_flushing_is_refused_while_requests_run(tiny: "TinyModels") -> None:
    engine = tiny.engine(OFF, 1)
    engine.submit(Submit(request_id=1, prompt=(1,), max_tokens=50, stops_at_eos=False))
    engine.step()
    assert not engine.flush()
