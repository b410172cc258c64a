"""The bundled models: what the engine computes equals the float32 reference made where they were trained."""

from pathlib import Path

import numpy as np
import pytest

from spectune.cpu_engine.draft_graph import tree_sessions
from spectune.cpu_engine.drafter import ModelDrafter, fill_pending, new_draft_cache
from spectune.cpu_engine.runner import GraphRunner
from spectune.cpu_engine.schedule import fixed
from spectune.cpu_engine.slots import new_slot_table
from spectune.cpu_engine.target import Target
from spectune.cpu_engine.weights import MODELS, read_draft, read_target

REFERENCE = np.load(Path(__file__).parents[2] / "data" / "reference_forward.npz")
PROMPT = REFERENCE["token_ids"]
MAX_BYTES = 30 * 2**20


@pytest.fixture(scope="module")
def target() -> Target:
    config, weights = read_target()
    return Target(
        config,
        weights,
        aux_layers=(1, 2, 3),
        num_slots=1,
        context_length=128,
        num_threads=1,
        with_trees=False,
    )


def test_the_target_scores_the_prompt_as_the_reference_does(target: Target) -> None:
    for count in range(8):
        end = len(PROMPT) - 7 + count
        logits, _ = target.prefill(0, 0, PROMPT[:end])
        np.testing.assert_allclose(logits[0], REFERENCE["target_logits_last8"][count], atol=2e-3)


def test_the_targets_features_are_the_references(target: Target) -> None:
    _, features = target.prefill(0, 0, PROMPT)
    assert features is not None
    np.testing.assert_allclose(features[-4:], REFERENCE["aux_features_last4"], atol=2e-3)


def test_greedy_decoding_goes_on_as_the_reference_does(target: Target) -> None:
    target.cache.reserve(128, 1, np.array([0]))
    logits, _ = target.prefill(0, 0, PROMPT)
    tokens = [int(logits.argmax())]
    for place in range(31):
        logits, _ = target.decode(np.array([[tokens[-1]]]), np.array([len(PROMPT) + place]))
        tokens.append(int(logits.argmax()))
    assert tokens == REFERENCE["greedy_tokens"].tolist()


def test_the_head_drafts_the_references_chain(target: Target) -> None:
    _, features = target.prefill(0, 0, PROMPT)
    assert features is not None
    drafter = ModelDrafter(read_draft(MODELS / "eagle"), fixed(5), 1, 1)
    drafter.prefill(0, 0, PROMPT[1:], features)
    table = new_slot_table(1, 256, 6, features.shape[1])
    table.pending_ids[0, 0] = REFERENCE["greedy_tokens"][0]
    table.pending_features[0, 0] = features[-1]
    table.pending_valid[0] = 1
    table.pending_start[0] = len(PROMPT) - 1
    assert drafter.draft(table, 1).tokens[0].tolist() == REFERENCE["eagle_chain"].tolist()


def test_the_heads_first_scores_are_the_references(target: Target) -> None:
    _, features = target.prefill(0, 0, PROMPT)
    assert features is not None
    head = read_draft(MODELS / "eagle")
    runner = GraphRunner(tree_sessions(head, 1)[0], new_draft_cache(head, 1))
    table = new_slot_table(1, 256, len(PROMPT), features.shape[1])
    table.pending_ids[0] = [*PROMPT[1:], REFERENCE["greedy_tokens"][0]]
    table.pending_features[0] = features
    table.pending_valid[0] = len(PROMPT)
    logits = fill_pending(runner, head, table, 1).run()["logits"][0, 0]
    np.testing.assert_allclose(logits, REFERENCE["eagle_first_logits"], atol=2e-3)


def test_the_stand_alone_drafts_first_token_is_the_references() -> None:
    drafter = ModelDrafter(read_draft(MODELS / "draft"), fixed(1), 1, 1)
    drafter.prefill(0, 0, PROMPT[:-1], None)
    table = new_slot_table(1, 256, 2, 0)
    table.pending_ids[0, 0] = PROMPT[-1]
    table.pending_valid[0] = 1
    table.pending_start[0] = len(PROMPT) - 1
    assert drafter.draft(table, 1).tokens.tolist() == [[int(REFERENCE["draft_logits_last"].argmax())]]


def test_the_bundled_models_are_16_bit_and_small() -> None:
    files = [path for path in MODELS.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= MAX_BYTES
    assert {path.name for path in files} >= {"config.json", "model.safetensors", "tokenizer.json"}
