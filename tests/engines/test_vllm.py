"""vLLM on a CPU: the bundled target with n-gram drafts, its stand-alone draft and its EAGLE-3 head."""

from typing import Any

import pytest

from tests.engines.conftest import Bench, RealEngines

pytestmark = [pytest.mark.engines, pytest.mark.timeout(1800)]
SETTINGS = ("--num-steps", "0,1,3", "--budget", "45")


@pytest.mark.parametrize(("method", "draft"), [("draft_model", "draft"), ("eagle3", "eagle")])
def test_a_draft_model_is_tuned(
    bench: Bench, engines: RealEngines, show: Any, method: str, draft: str
) -> None:
    server = engines.vllm_speculating(bench.port, method, draft, 2)
    tuned = bench.tune(*SETTINGS, "--", *server)
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
