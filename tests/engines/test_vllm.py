"""vLLM on a CPU: the bundled target with n-gram drafts, its stand-alone draft and its EAGLE-3 head."""

import json
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from spectune.domain.command import Command
from spectune.domain.measurement import SpecCounters
from spectune.domain.schedule import Schedule
from spectune.domain.spec_config import SpecConfig
from spectune.engines.vllm import VllmAdapter
from tests.engines.conftest import Bench, RealEngines

pytestmark = [pytest.mark.engines, pytest.mark.timeout(1800)]
SETTINGS = ("--num-steps", "0,1,3", "--budget", "45")
AMPLE = ("--num-steps", "0,1,3", "--budget", "240")  # launches take half of it; acceptance needs many prompts


@pytest.mark.parametrize(("method", "draft"), [("draft_model", "draft"), ("eagle3", "eagle")])
def test_a_draft_model_is_tuned(
    bench: Bench, engines: RealEngines, show: Any, method: str, draft: str
) -> None:
    server = engines.vllm_speculating(bench.port, method, draft, 2)
    tuned = bench.tune(*AMPLE, "--", *server)
    show(tuned)
    tuned.check(method, (0, 1, 3))
    at_1, at_4 = tuned.acceptance(3)
    assert at_1 > 1.8  # 2.3 with the draft model, 3.1 with the head
    assert at_4 == pytest.approx(at_1, abs=0.3)
    assert tuned.trials()[3]["effective"]["max_running_requests"] == 8


def test_ngram_drafts_are_tuned(bench: Bench, engines: RealEngines, show: Any) -> None:
    tuned = bench.tune(*SETTINGS, "--method", "ngram", "--", *engines.vllm(bench.port))
    show(tuned)
    tuned.check("ngram", (0, 1, 3))


@pytest.mark.parametrize("most_at_4", [1, 0])
def test_a_schedule_is_started_read_back_and_in_force(
    bench: Bench, engines: RealEngines, most_at_4: int
) -> None:
    """3 tokens while one sequence decodes, 1 or none while four do."""
    dialect, most = VllmAdapter(), SpecConfig.chain("eagle3", 3)
    schedule = Schedule.of((1, 1, 3), (2, None, most_at_4))
    command = Command(argv=tuple(engines.vllm_speculating(bench.port, "eagle3", "eagle", 3)))
    assert dialect.check_schedule(command, most, schedule) == ""
    started = dialect.scheduled(command, most, schedule, "").command
    bench.serve(list(started.argv))
    log = (bench.folder / "server.log").read_text(encoding="utf-8")
    answers = tuple(fetch(bench.port, request.path) for request in dialect.settings_requests())
    effective = dialect.read_settings(started, answers, log)
    assert (effective.config, effective.schedule) == (most, schedule)
    assert dialect.refusal(log) == ""
    alone = counted(bench.port, engines, dialect, num_clients=1)
    assert alone.drafted_tokens == 3 * alone.verify_steps > 0
    together = counted(bench.port, engines, dialect, num_clients=4)
    tokens = together.drafted_tokens / (together.verify_steps + together.undrafted_steps)
    assert tokens == pytest.approx(
        most_at_4, abs=0.6
    )  # less than four decode at the beginning and at the end
    bench.stop()


def counted(port: int, engines: RealEngines, dialect: VllmAdapter, *, num_clients: int) -> SpecCounters:
    """The counters of a load of so many clients, six requests each."""
    config = SpecConfig.chain("eagle3", 3)
    before = dialect.read_counters(fetch(port, "/metrics"), config)
    model = str(engines.models / "hf" / "target")
    with ThreadPoolExecutor(num_clients) as clients:
        list(clients.map(lambda number: complete(port, model, number), range(6 * num_clients)))
    after = dialect.read_counters(fetch(port, "/metrics"), config)
    assert before is not None
    assert after is not None
    return after.since(before)


def complete(port: int, model: str, number: int) -> None:
    body = {
        "model": model, "prompt": f"def add_{number}(a, b):\n", "max_tokens": 200, "temperature": 0,
        "ignore_eos": True,
    }  # fmt: skip
    assert json.loads(fetch(port, "/v1/completions", body))["usage"]["completion_tokens"] == 200


def fetch(port: int, path: str, body: dict[str, object] | None = None) -> str:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}", data, {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=300) as answer:
        found: bytes = answer.read()
    return found.decode()
