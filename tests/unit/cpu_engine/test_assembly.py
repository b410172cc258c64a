"""Capacity follows from bytes: more draft tokens, fewer sequences, and never by an invented penalty."""

from dataclasses import replace

import pytest

from spectune.cpu_engine.assembly import build_engine, memory_plan
from spectune.cpu_engine.model_config import read_config
from spectune.cpu_engine.options import EngineOptions
from spectune.cpu_engine.weights import MODELS, read_draft

TARGET = read_config(MODELS / "target")
HEAD = read_draft(MODELS / "eagle")


def running(num_steps: int) -> int:
    options = EngineOptions(method="eagle", num_steps=num_steps, num_draft_tokens=num_steps + 1)
    return memory_plan(options, TARGET, HEAD).max_running_requests


def test_capacity_falls_a_little_as_draft_tokens_rise() -> None:
    capacities = [running(steps) for steps in range(1, 13)]
    assert capacities == sorted(capacities, reverse=True)
    assert 0.85 < capacities[7] / capacities[0] < 1
    assert memory_plan(EngineOptions(), TARGET, None).max_running_requests > capacities[0]


def test_capacity_is_linear_in_the_budget() -> None:
    options = EngineOptions()
    once = memory_plan(options, TARGET, None).max_running_requests
    twice = memory_plan(
        replace(options, cache_bytes=2 * options.cache_bytes), TARGET, None
    ).max_running_requests
    assert twice in (2 * once, 2 * once + 1)


def test_a_budget_too_small_for_one_sequence_is_refused() -> None:
    with pytest.raises(ValueError, match="bytes of one sequence"):
        build_engine(EngineOptions(cache_bytes=2**20))


@pytest.mark.parametrize("method", ["eagle", "draft_model", "ngram", "off"])
def test_every_method_can_be_built(method: str) -> None:
    steps = 0 if method == "off" else 2
    options = EngineOptions(method=method, num_steps=steps, num_draft_tokens=steps + 1)  # type: ignore[arg-type]
    engine, ready = build_engine(options)
    assert engine.num_slots == ready.max_running_requests
    assert ready.max_total_num_tokens == ready.max_running_requests * 1024
