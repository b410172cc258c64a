"""llama-server built from source: the bundled target with draft model, EAGLE head and n-gram drafts."""

from typing import Any

import pytest

from tests.engines.conftest import Bench, RealEngines

pytestmark = [pytest.mark.engines, pytest.mark.timeout(1800)]
SETTINGS = ("--num-steps", "0,1,3", "--budget", "30")


@pytest.mark.parametrize(("method", "draft"), [("draft_model", "draft"), ("eagle3", "eagle")])
def test_a_draft_model_is_tuned(
    bench: Bench, engines: RealEngines, show: Any, method: str, draft: str
) -> None:
    server = [*engines.llama_server(bench.port), "-md", engines.gguf(draft)]
    tuned = bench.tune(*SETTINGS, "--method", method, "--", *server)
    show(tuned)
    tuned.check(method, (0, 1, 3))
    assert tuned.trials()[3]["levels"][0]["acceptance_length"] > 1.8  # about 2.3 on this text
    assert tuned.trials()[3]["effective"]["max_running_requests"] == 4


def test_ngram_drafts_are_tuned(bench: Bench, engines: RealEngines, show: Any) -> None:
    tuned = bench.tune(*SETTINGS, "--method", "ngram", "--", *engines.llama_server(bench.port))
    show(tuned)
    tuned.check("ngram", (0, 1, 3))


def test_a_draft_of_the_wrong_kind_is_told_in_the_servers_words(bench: Bench, engines: RealEngines) -> None:
    """llama-server then goes on without speculation, with one line in its log."""
    server = [*engines.llama_server(bench.port), "-md", engines.gguf("draft"), "--spec-type", "draft-eagle3"]
    tuned = bench.tune("--num-steps", "0,2", "--budget", "10", "--method", "eagle3", "--", *server)
    trials = tuned.trials()
    assert trials[0]["outcome"] == "completed"
    assert trials[2]["outcome"] == "void"
    assert "off runs" in trials[2]["reason"]
    assert "draft model is not eagle3" in trials[2]["reason"]
