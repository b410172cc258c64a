"""The bundled pair: greedy text is plain decoding's, token for token, for every method and batch."""

import gzip
import json
from importlib import resources

import numpy as np
import pytest
from numpy.typing import NDArray

from spectune.cpu_engine.assembly import build_engine
from spectune.cpu_engine.messages import Submit
from spectune.cpu_engine.options import EngineOptions
from spectune.cpu_engine.target import SUM_BLOCK, Target, is_placed_alike
from spectune.cpu_engine.tokenizer import Tokenizer
from spectune.cpu_engine.verifier import Tree
from spectune.cpu_engine.weights import MODELS, read_target

NUM_REQUESTS = 32
MAX_TOKENS = 64

SETTINGS = {
    "eagle 1": EngineOptions(method="eagle", num_steps=1, num_draft_tokens=2),
    "eagle 5": EngineOptions(method="eagle", num_steps=5, num_draft_tokens=6),
    "eagle tree": EngineOptions(method="eagle", num_steps=3, topk=3, num_draft_tokens=9),
    "draft_model 3": EngineOptions(method="draft_model", num_steps=3, num_draft_tokens=4),
    "draft_model tree": EngineOptions(method="draft_model", num_steps=2, topk=2, num_draft_tokens=6),
    "ngram 6": EngineOptions(method="ngram", num_steps=6, num_draft_tokens=7),
}


@pytest.fixture(scope="module")
def requests() -> list[Submit]:
    data = resources.files("spectune.workloads") / "data" / "python_code.jsonl.gz"
    tokenizer = Tokenizer(MODELS / "target" / "tokenizer.json")
    texts = [json.loads(line)["text"] for line in gzip.decompress(data.read_bytes()).decode().splitlines()]
    return [
        Submit(
            request_id=n,
            prompt=tuple(tokenizer.encode(texts[n % len(texts)][400 * n % 4000 :][: 100 + 20 * n])),
            max_tokens=MAX_TOKENS,
            stops_at_eos=False,
        )
        for n in range(NUM_REQUESTS)
    ]


def run(options: EngineOptions, requests: list[Submit]) -> tuple[dict[int, list[int]], float]:
    """Outputs by request, and the acceptance length."""
    engine, _ = build_engine(options)
    for request in requests:
        engine.submit(request)
    outputs: dict[int, list[int]] = {request.request_id: [] for request in requests}
    while engine.has_work:
        step = engine.step()
        for request_id, tokens in zip(step.request_ids, step.tokens, strict=True):
            outputs[request_id] += tokens
    stats = engine.stats
    return outputs, 1 + stats.accepted_tokens / max(stats.verify_steps, 1)


@pytest.fixture(scope="module")
def plain(requests: list[Submit]) -> dict[int, list[int]]:
    return run(EngineOptions(max_running_requests=1), requests)[0]


LENGTH = 96


@pytest.fixture(scope="module")
def target() -> Target:
    """The bundled target with trees, rows long enough for LENGTH tokens."""
    config, weights = read_target(MODELS / "target")
    target = Target(
        config, weights, aux_layers=(), num_slots=24, context_length=1024, num_threads=1, with_trees=True
    )
    target.cache.reserve(LENGTH, 0, np.zeros(25, np.int64))
    return target


@pytest.fixture(scope="module")
def prompts(requests: list[Submit]) -> NDArray[np.int64]:
    """Prompts of LENGTH tokens [24, LENGTH], all different."""
    text = [token for request in requests for token in request.prompt]
    return np.array(text[: 24 * LENGTH]).reshape(24, LENGTH)


@pytest.fixture(scope="module")
def alone(target: Target, prompts: NDArray[np.int64]) -> list[bytes]:
    """The last token's logits of each prompt, taken in whole and alone, as bytes."""
    return [target.prefill(0, 0, prompt)[0].tobytes() for prompt in prompts]


@pytest.mark.parametrize("cut", [1, 2, 3, 7, 16, 31, 64, 93, 95])
@pytest.mark.parametrize("slot", [0, 13])
def test_a_prompt_in_two_chunks_has_the_same_bits(
    target: Target, prompts: NDArray[np.int64], alone: list[bytes], cut: int, slot: int
) -> None:
    target.prefill(slot, 0, prompts[0, :cut])
    assert target.prefill(slot, cut, prompts[0, cut:])[0].tobytes() == alone[0]


@pytest.mark.parametrize("length", [128, 320, 1024])
def test_longer_cache_rows_leave_the_bits(
    prompts: NDArray[np.int64], target: Target, alone: list[bytes], length: int
) -> None:
    before = target.cache.length
    target.cache.reserve(length, 0, np.zeros(25, np.int64))
    assert target.cache.length == length
    assert target.prefill(0, 0, prompts[3])[0].tobytes() == alone[3]
    target.cache.reserve(before, 0, np.zeros(25, np.int64))


@pytest.mark.parametrize("batch", [1, 2, 3, 5, 8, 16, 24])
@pytest.mark.parametrize("width", [1, 2, 4, 9])
@pytest.mark.parametrize("form", ["chain", "tree"])
def test_a_batch_of_any_size_and_width_has_the_same_bits(
    target: Target, prompts: NDArray[np.int64], alone: list[bytes], batch: int, width: int, form: str
) -> None:
    start = LENGTH - width
    for slot in range(batch):
        target.prefill(slot, 0, prompts[slot, :start])
    ids, lengths = prompts[:batch, start:], np.full(batch, start)
    if form == "chain":
        logits, _ = target.decode(ids, lengths)
    else:
        depths = np.tile(np.arange(width), (batch, 1))
        logits, _ = target.decode_tree(Tree(tokens=ids, parents=depths - 1, depths=depths), lengths)
    last = logits.reshape(batch, width, -1)[:, -1]
    assert [row.tobytes() for row in last] == alone[:batch]


@pytest.mark.parametrize("length", [40, 93, 130, 249, 253, 380, 505, 511, 760])
@pytest.mark.parametrize("width", [3, 7, 11])
def test_a_path_of_a_tree_has_the_bits_of_the_same_chain(
    target: Target, requests: list[Submit], length: int, width: int
) -> None:
    """Nodes that may have others are told, and never accepted."""
    text = np.array([token for request in requests for token in request.prompt])
    before = target.cache.length
    target.cache.reserve(length + width + 2, 0, np.zeros(25, np.int64))
    tree = random_tree(width, seed=length)
    target.prefill(0, 0, text[:length])
    logits = target.decode_tree(tree, np.array([length]))[0].copy()
    may_be_accepted = is_placed_alike(tree, np.array([length]))[0]
    target.prefill(1, 0, text[:length])
    compared = 0
    for node in range(width):
        path = [node]
        while path[0]:
            path.insert(0, int(tree.parents[0, path[0]]))
        if not may_be_accepted[path].all():
            continue
        compared += 1
        alone, _ = target.prefill(1, length, tree.tokens[0, path])
        assert alone[0].tobytes() == logits[node].tobytes(), path
        for layer in target.cache.layers:
            for part in layer:
                np.testing.assert_array_equal(part[0, :, length + node], part[1, :, length + len(path) - 1])
    assert compared == width or (compared and length + width > SUM_BLOCK)
    target.cache.reserve(before, 0, np.zeros(25, np.int64))


def random_tree(width: int, seed: int) -> Tree:
    rng = np.random.default_rng(seed)
    parents, depths = [-1], [0]
    for node in range(1, width):
        parents.append(int(rng.integers(0, node)))
        depths.append(depths[parents[-1]] + 1)
    return Tree(
        tokens=rng.integers(0, 4096, (1, width)), parents=np.array([parents]), depths=np.array([depths])
    )


def test_batching_changes_nothing(requests: list[Submit], plain: dict[int, list[int]]) -> None:
    assert run(EngineOptions(), requests)[0] == plain


@pytest.mark.parametrize("name", SETTINGS)
def test_speculation_changes_nothing_and_drafts_are_accepted(
    name: str, requests: list[Submit], plain: dict[int, list[int]]
) -> None:
    outputs, acceptance_length = run(SETTINGS[name], requests)
    assert outputs == plain
    assert sum(map(len, outputs.values())) == NUM_REQUESTS * MAX_TOKENS
    assert 1.3 < acceptance_length <= SETTINGS[name].num_steps + 1
