import json

import pytest

from spectune.domain.spec_config import OFF, SpecConfig
from spectune.engines.sglang_answers import read_counters, read_server_info
from spectune.errors import ProtocolError

INFO: dict[str, object] = {
    "speculative_algorithm": "NGRAM",
    "speculative_num_steps": 4,
    "speculative_eagle_topk": 1,
    "speculative_num_draft_tokens": 4,
    "max_running_requests": 48,
    "mem_fraction_static": 0.8,
    "internal_states": [{"effective_max_running_requests_per_dp": 26, "decode_cuda_graph_bs": [1, 2]}],
}


def test_the_real_limit_counts_and_ngram_steps_exclude_the_root() -> None:
    found = read_server_info(json.dumps(INFO), declared=frozenset({"max_running_requests"}))
    assert found.config == SpecConfig.chain("ngram", 3)
    assert found.max_running_requests == 26
    assert found.covariates() == {"max_running_requests": "48"}
    kinds = {key.name: key.kind for key in found.reported}
    assert kinds["mem_fraction_static"] == kinds["decode_cuda_graph_bs"] == "capacity"


def test_older_answers_without_states_give_the_argument() -> None:
    old = {key: value for key, value in INFO.items() if key != "internal_states"}
    assert read_server_info(json.dumps(old), declared=frozenset()).max_running_requests == 48


@pytest.mark.parametrize(
    "change",
    [
        {"speculative_algorithm": "UNO"},
        {"speculative_algorithm": "EAGLE", "speculative_num_steps": None},
        {"speculative_algorithm": "EAGLE", "speculative_num_steps": 9},
        {"internal_states": "x"},
    ],
)
def test_settings_that_make_no_sense_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(ProtocolError, match="/server_info"):
        read_server_info(json.dumps(INFO | change), declared=frozenset())


PAGE = """sglang:num_running_reqs{tp="0"} 0.0
sglang:generation_tokens_total{is_streaming="true"} 30.0
sglang:generation_tokens_total{is_streaming="false"} 10.0
sglang:num_requests_total{is_streaming="true"} 3.0
"""


def test_accepted_tokens_are_what_neither_prefill_nor_a_step_gave() -> None:
    found = read_counters(PAGE + "sglang:spec_verify_calls_total 20.0\n", SpecConfig.chain("eagle", 2))
    assert found is not None
    assert (found.verify_steps, found.accepted_tokens, found.drafted_tokens) == (20, 17, 40)


def test_without_speculation_every_step_is_undrafted() -> None:
    found = read_counters(PAGE + "sglang:spec_accept_length 0.0\n", OFF)
    assert found is not None
    assert (found.verify_steps, found.undrafted_steps) == (0, 37)


def test_a_version_that_does_not_count_verify_steps_says_nothing() -> None:
    assert read_counters(PAGE + "sglang:spec_accept_length 2.4\n", SpecConfig.chain("eagle", 2)) is None


def test_a_page_without_metrics_tells_the_flag() -> None:
    with pytest.raises(ProtocolError, match="--enable-metrics"):
        read_counters("python_info 1\n", OFF)
