"""Prompt lookup, against a plain search; chains of a model, against its own greedy text."""

from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spectune.cpu_engine.drafter import NGRAM_SIZES, ModelDrafter, NgramDrafter, NoDrafter
from spectune.cpu_engine.schedule import fixed
from spectune.cpu_engine.slots import new_slot_table

if TYPE_CHECKING:
    from tests.unit.cpu_engine.conftest import TinyModels

lines = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=20), min_size=1, max_size=4)


@given(lines, st.integers(1, 5))
def test_lookup_copies_what_followed_the_latest_earlier_occurrence(
    batch: list[list[int]], steps: int
) -> None:
    table = new_slot_table(len(batch), 64, 1, 0)
    for row, tokens in enumerate(batch):
        table.tokens[row, : len(tokens)] = tokens
        table.length[row] = len(tokens) - 1
    chain = NgramDrafter(fixed(steps)).draft(table, len(batch))
    for row, tokens in enumerate(batch):
        expected = _lookup(tokens, steps)
        assert chain.tokens[row, : chain.drafted[row]].tolist() == expected


def _lookup(tokens: list[int], steps: int) -> list[int]:
    for size in NGRAM_SIZES:
        for start in range(len(tokens) - size - 1, -1, -1):
            if tokens[start : start + size] == tokens[-size:]:
                return tokens[start + size : start + size + steps]
    return []


def test_no_drafter_drafts_nothing() -> None:
    chain = NoDrafter().draft(new_slot_table(2, 8, 1, 0), 2)
    assert (chain.tokens.shape, chain.drafted.tolist()) == ((2, 0), [0, 0])


def test_a_models_chain_is_its_own_greedy_text(tiny: "TinyModels") -> None:
    drafter = ModelDrafter(tiny.draft, fixed(4), 2, 1)
    prompt = [5, 1, 20, 7, 7, 3]
    drafter.prefill(1, 0, np.array(prompt[:4]), None)
    drafter.prefill(0, 0, np.array(prompt[:4]), None)
    table = new_slot_table(1, 64, 3, 0)
    table.pending_ids[0, :2] = prompt[4:]
    table.pending_valid[0] = 2
    table.pending_start[0] = 4
    expected = list(prompt)
    for _ in range(4):
        expected.append(int(tiny.draft_logits(expected).argmax()))
    assert drafter.draft(table, 1).tokens[0].tolist() == expected[len(prompt) :]
