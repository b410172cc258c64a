import re

import pytest

from spectune.engines.known_bugs import KNOWN_BUGS, KnownBug, bugs_before_launch, bugs_in_log, version_key

TRAITS = frozenset({"speculation", "topk>1"})


def test_every_entry_names_an_engine_and_says_what_to_do() -> None:
    for bug in KNOWN_BUGS:
        assert bug.engine in ("sglang", "vllm", "llamacpp")
        assert bug.symptom.endswith(".")
        assert bug.advice.endswith(".")
        re.compile(bug.log_pattern)
        assert not bug.since or not bug.until or version_key(bug.since) < version_key(bug.until)
        assert bug.engine in bug.line


@pytest.mark.parametrize(
    ("version", "hit"), [("0.5.8", False), ("0.5.9", True), ("0.5.13", True), ("0.5.14", False), ("", True)]
)
def test_a_version_range_begins_in_and_ends_before(version: str, hit: bool) -> None:
    bug = KnownBug(engine="sglang", since="0.5.9", until="0.5.14", symptom="s.", advice="a.")
    assert bug.may_hit("sglang", version, frozenset()) is hit
    assert not bug.may_hit("vllm", version, frozenset())


def test_before_a_launch_only_what_depends_on_the_setting_is_told() -> None:
    told = bugs_before_launch("sglang", "0.5.17", TRAITS)
    assert any("26972" in bug.thread for bug in told)
    assert all(bug.needs for bug in told)
    assert not bugs_before_launch("sglang", "0.5.17", frozenset())
    handled = frozenset({"speculation", "method:ngram"})
    assert not bugs_before_launch("llamacpp", "", handled)


def test_eagle_heads_of_llama_server_are_warned_of_while_drafts_are_sampled_together() -> None:
    traits = frozenset({"speculation", "method:eagle3"})
    (told,) = bugs_before_launch("llamacpp", "b0-unknown", traits | {"drafts-sampled-together"})
    assert "--no-spec-draft-backend-sampling" in told.advice
    assert not bugs_before_launch("llamacpp", "b0-unknown", traits)


def test_beside_a_failure_the_log_decides() -> None:
    log = "CUDA error: an illegal memory access was encountered"
    assert any("topk" in bug.symptom for bug in bugs_in_log("sglang", "0.5.17", TRAITS, log))
    assert not bugs_in_log("sglang", "0.5.17", TRAITS, "all is well")
    assert not bugs_in_log("vllm", "0.26.0", TRAITS, log)


def test_what_the_diagnosis_says_is_not_said_again() -> None:
    held = "ValueError: Free memory on device cuda:0 (115.74/139.8 GiB) on startup is less than desired"
    assert not bugs_in_log("vllm", "0.26.0", frozenset(), held)
