"""llama-server built from source: the bundled target with draft model, EAGLE head and n-gram drafts."""

from typing import Any

import pytest

from tests.engines.conftest import Bench, RealEngines

pytestmark = [pytest.mark.engines, pytest.mark.timeout(1800)]
SETTINGS = ("--num-steps", "0,1,3", "--budget", "30")


def test_the_draft_model_is_tuned(bench: Bench, engines: RealEngines, show: Any) -> None:
    server = [*engines.llama_server(bench.port), "-md", engines.gguf("draft")]
    tuned = bench.tune(*SETTINGS, "--method", "draft_model", "--", *server)
    show(tuned)
    tuned.check("draft_model", (0, 1, 3))
    at_1, at_4 = tuned.acceptance(3)
    assert at_1 > 1.8  # 2.3 on this text
    assert at_4 == pytest.approx(at_1, abs=0.25)
    assert tuned.trials()[3]["effective"]["max_running_requests"] == 4


def test_the_eagle_head_is_tuned(bench: Bench, engines: RealEngines, show: Any) -> None:
    """With drafts sampled on the CPU; see the next test."""
    server = [*engines.llama_server(bench.port), "-md", engines.gguf("eagle")]
    flag = "--no-spec-draft-backend-sampling"
    tuned = bench.tune(*SETTINGS, "--method", "eagle3", "--", *server, flag)
    show(tuned)
    tuned.check("eagle3", (0, 1, 3))
    at_1, at_4 = tuned.acceptance(3)
    assert at_1 > 2.5  # 3.0 on this text
    assert at_4 == pytest.approx(at_1, abs=0.25)
    assert flag not in tuned.text.split("spectune study")[0]


def test_the_known_bug_of_eagle_heads_is_there_and_told(
    bench: Bench, engines: RealEngines, show: Any
) -> None:
    """This build rejects most drafts of several sequences at once; a build that does not ends the entry."""
    server = [*engines.llama_server(bench.port), "-md", engines.gguf("eagle")]
    tuned = bench.tune("--num-steps", "0,3", "--budget", "20", "--method", "eagle3", "--", *server)
    show(tuned)
    tuned.check("eagle3", (0, 3))
    at_1, at_4 = tuned.acceptance(3)
    assert at_4 < at_1 - 0.5
    assert "--no-spec-draft-backend-sampling" in tuned.text.split("spectune study")[0]


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
