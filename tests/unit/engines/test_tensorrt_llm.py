"""From source facts alone: no TensorRT-LLM was run."""

import json

import pytest
import yaml

from spectune.domain.command import Command
from spectune.domain.spec_config import OFF, SpecConfig
from spectune.engines.tensorrt_llm import config_file_text, read_iteration_stats, recognises
from spectune.errors import ConfigError, ProtocolError


def test_its_command_is_recognised() -> None:
    assert recognises(Command(argv=("mpirun", "-n", "4", "/opt/bin/trtllm-serve", "m")))
    assert not recognises(Command(argv=("vllm", "serve", "m")))


def test_a_setting_becomes_its_configuration() -> None:
    text = config_file_text(SpecConfig.chain("eagle3", 3), "org/draft: x")
    assert yaml.safe_load(text) == {
        "speculative_config": {
            "decoding_type": "Eagle3",
            "max_draft_len": 3,
            "speculative_model": "org/draft: x",
        }
    }
    assert config_file_text(OFF, "d") == ""
    with pytest.raises(ConfigError, match="chain"):
        config_file_text(SpecConfig(method="eagle", num_steps=2, topk=2, num_draft_tokens=4), "")


def iteration(requests: int, drafted: int, accepted: int) -> dict[str, object]:
    return {
        "inflightBatchingStats": {"numGenRequests": requests},
        "specDecodingStats": {"numDraftTokens": drafted, "numAcceptedTokens": accepted},
    }


def test_iterations_are_summed() -> None:
    found = read_iteration_stats(json.dumps([iteration(4, 12, 7), iteration(2, 0, 0), {}]))
    assert (found.verify_steps, found.undrafted_steps) == (4, 2)
    assert (found.drafted_tokens, found.accepted_tokens) == (12, 7)


@pytest.mark.parametrize("body", ["", "{}", "[1]", json.dumps([iteration(1, -1, 0)])])
def test_what_is_no_list_of_iterations_is_refused(body: str) -> None:
    with pytest.raises(ProtocolError, match="/metrics"):
        read_iteration_stats(body)
