import pytest

from spectune.domain.spec_config import OFF, SpecConfig
from spectune.domain.trial import EffectiveSettings
from spectune.engines.vllm_answers import read_counters, read_settings
from spectune.errors import ProtocolError

METRICS = 'vllm:cache_config_info{num_gpu_blocks="100",block_size="16"} 1.0\nvllm:generation_tokens_total 0\n'
ANSWERS = ('{"version": "0.20.0"}', METRICS, '{"data": [{"id": "m"}]}')


def line(config: str) -> str:
    return f"INFO Initializing a V1 LLM engine (v0) with config: model='m', speculative_config={config}, x=1"


def read(log: str, method: str = "") -> EffectiveSettings:
    return read_settings(ANSWERS, log, asked_method=method, declared={})


def test_the_log_tells_the_setting() -> None:
    eagle = line("SpeculativeConfig(method='eagle3', model='a (b)', num_spec_tokens=4)")
    assert read(eagle).config == SpecConfig.chain("eagle3", 4)
    assert read(line("None")).config == OFF
    assert read(eagle, "auto").config == SpecConfig.chain("auto", 4)


def test_older_versions_give_tokens_by_log_or_by_blocks() -> None:
    assert read(line("None")).max_total_num_tokens == 1600
    assert read(f"{line('None')}\nGPU KV cache size: 12,345 tokens").max_total_num_tokens == 12345
    assert read(f"args: {{'max_num_seqs': 96}}\n{line('None')}").max_running_requests == 96


@pytest.mark.parametrize("log", ["", "speculative_config=None", line("SpeculativeConfig(method='ngram')")])
def test_a_log_that_does_not_tell_is_not_taken_for_off(log: str) -> None:
    with pytest.raises(ProtocolError, match="log"):
        read(log)


def test_gaps_beyond_the_drafts_are_undrafted_steps() -> None:
    found = read_counters(
        "vllm:generation_tokens_total 40\nvllm:inter_token_latency_seconds_count 25\n"
        "vllm:spec_decode_num_drafts_total 20\nvllm:spec_decode_num_draft_tokens_total 40\n"
        "vllm:spec_decode_num_accepted_tokens_total 14\n"
        'vllm:spec_decode_num_accepted_tokens_per_pos_total{position="0"} 9\n'
        'vllm:spec_decode_num_accepted_tokens_per_pos_total{position="1"} 5\n'
    )
    assert (found.verify_steps, found.undrafted_steps, found.accepted_per_position) == (20, 5, (9, 5))


def test_a_page_of_another_program_is_refused() -> None:
    with pytest.raises(ProtocolError, match="generation_tokens_total"):
        read_counters("up 1\n")
    with pytest.raises(ProtocolError, match="cache_config_info"):
        read_settings((ANSWERS[0], "up 1\n", ANSWERS[2]), line("None"), asked_method="", declared={})


def test_numbers_in_other_digits_are_not_numbers() -> None:
    found = read(f"args: {{'max_num_seqs': ٩٦}}\n{line('None')}\nGPU KV cache size: ١٢ tokens")
    assert (found.max_running_requests, found.max_total_num_tokens) == (None, 1600)
    with pytest.raises(ProtocolError, match="num_spec_tokens"):
        read(line("SpeculativeConfig(method='eagle3', num_spec_tokens=٤)"))
