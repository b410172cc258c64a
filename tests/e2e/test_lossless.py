"""The bundled pair: greedy text is plain decoding's, token for token, for every method and batch."""

import gzip
import json
from importlib import resources

import pytest

from spectune.cpu_engine.assembly import build_engine
from spectune.cpu_engine.messages import Submit
from spectune.cpu_engine.options import EngineOptions
from spectune.cpu_engine.tokenizer import Tokenizer
from spectune.cpu_engine.weights import MODELS

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
