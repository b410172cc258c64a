"""Real engines and the embedded one, the same weights: the same greedy text, and the same drafts accepted.

So the embedded engine's speculation is checked against two engines that share nothing with it, and the
exported files against the engine that the models were trained for.
"""

import gzip
import json
import sys
import urllib.request
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import pytest

from spectune.domain.measurement import SpecCounters
from spectune.domain.spec_config import SpecConfig
from spectune.engines.adapter import EngineAdapter
from spectune.engines.embedded import EmbeddedAdapter
from spectune.engines.llamacpp import LlamacppAdapter
from spectune.engines.vllm import VllmAdapter
from spectune.workloads.prompts import python_code_pool
from tests.engines.conftest import Bench, RealEngines

pytestmark = [pytest.mark.engines, pytest.mark.timeout(1800)]
NUM_PROMPTS, MAX_TOKENS, NUM_STEPS = 16, 64, 3
EMBEDDED_NAMES = {"draft_model": "STANDALONE", "eagle3": "EAGLE"}
DRAFTS = {"draft_model": "draft", "eagle3": "eagle"}


@dataclass(frozen=True, slots=True)
class Written:
    """What a server wrote: tokens of each prompt, texts, and its counters afterwards."""

    prompt_tokens: list[int]
    texts: list[str]
    counters: SpecCounters


@pytest.mark.parametrize("method", ["draft_model", "eagle3"])
def test_vllm_writes_and_accepts_what_the_embedded_engine_does(
    bench: Bench, engines: RealEngines, method: str
) -> None:
    command = engines.vllm_speculating(bench.port, method, DRAFTS[method], NUM_STEPS)
    theirs = written(bench, command, VllmAdapter(), model=str(engines.models / "hf" / "target"))
    ours = embedded(bench, method)
    assert theirs.prompt_tokens == ours.prompt_tokens
    assert theirs.texts == ours.texts
    assert theirs.counters.accepted_per_position == ours.counters.accepted_per_position
    assert theirs.counters.verify_steps == ours.counters.verify_steps


@pytest.mark.parametrize("method", ["draft_model", "eagle3"])
def test_llama_server_writes_what_the_embedded_engine_does(
    bench: Bench, engines: RealEngines, method: str
) -> None:
    """Its last draft of a request is cut to what may still come, so counters are near and not equal."""
    draft_type = {"draft_model": "draft-simple", "eagle3": "draft-eagle3"}[method]
    command = [
        *engines.llama_server(bench.port), "--metrics", "-md", engines.gguf(DRAFTS[method]),
        "--spec-type", draft_type, "--spec-draft-n-max", str(NUM_STEPS),
    ]  # fmt: skip
    theirs = written(bench, command, LlamacppAdapter(), model="")
    ours = embedded(bench, method)
    assert theirs.prompt_tokens == ours.prompt_tokens
    assert theirs.texts == ours.texts
    assert acceptance(theirs.counters) == pytest.approx(acceptance(ours.counters), abs=0.03)


def embedded(bench: Bench, method: str) -> Written:
    command = [
        sys.executable, "-m", "spectune", "serve", "--port", str(bench.port),
        "--speculative-algorithm", EMBEDDED_NAMES[method], "--speculative-num-steps", str(NUM_STEPS),
    ]  # fmt: skip
    return written(bench, command, EmbeddedAdapter(), model="")


def written(bench: Bench, command: list[str], dialect: EngineAdapter, *, model: str) -> Written:
    """What the server of this command writes to the built-in workload's first prompts, one by one."""
    bench.serve(command)
    answers = [ask(bench.port, prompt, model) for prompt in prompts()]
    metrics = fetch(urllib.request.Request(f"http://127.0.0.1:{bench.port}/metrics"))
    bench.stop()
    counters = dialect.read_counters(metrics, SpecConfig.chain("draft_model", NUM_STEPS))
    assert counters is not None
    return Written(
        [answer["usage"]["prompt_tokens"] for answer in answers],
        [answer["choices"][0]["text"] for answer in answers],
        counters,
    )


def acceptance(counters: SpecCounters) -> float:
    """Accepted tokens per drafted one."""
    return counters.accepted_tokens / counters.drafted_tokens


def prompts() -> list[str]:
    packed = files("spectune.workloads").joinpath("data", "python_code.jsonl.gz").read_bytes()
    pool = python_code_pool(gzip.decompress(packed).decode(), num_prompts=NUM_PROMPTS)
    return [json.loads(prompt.body)["prompt"] for prompt in pool.prompts]


def ask(port: int, prompt: str, model: str) -> Any:
    body = {"prompt": prompt, "max_tokens": MAX_TOKENS, "temperature": 0, "model": model}
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/completions",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    return json.loads(fetch(request))


def fetch(request: urllib.request.Request) -> str:
    with urllib.request.urlopen(request, timeout=120) as answer:
        body: bytes = answer.read()
    return body.decode()
