import json

import pytest

from spectune.domain.command import Command
from spectune.domain.spec_config import OFF, SpecConfig
from spectune.engines import vllm_config
from spectune.engines.arguments import FlagRule, Flags
from spectune.engines.vllm import starts
from spectune.engines.words import engine_words
from spectune.errors import ConfigError


def flags(*argv: str) -> Flags:
    words = engine_words(Command(argv=("vllm", "serve", "m", *argv)), starts, "vLLM")
    return Flags(words=words, rule=FlagRule(has_underscores=True))


@pytest.mark.parametrize(
    ("argv", "config"),
    [
        ((), OFF),
        (("-sc", '{"method": "ngram", "num_speculative_tokens": 4}'), SpecConfig.chain("ngram", 4)),
        (('--speculative_config={"method": "mtp"}',), SpecConfig.chain("mtp", 1)),
        (("--speculative-config", '{"method": "deepseek_mtp", "num_speculative_tokens": 2}'),
         SpecConfig.chain("mtp", 2)),
        (("-sc", '{"model": "d", "num_speculative_tokens": 2}'), SpecConfig.chain("auto", 2)),
        (("--speculative-config.method", "eagle3", "--speculative-config.num-speculative-tokens=5",
          "--speculative-config.model", "d"), SpecConfig.chain("eagle3", 5)),
        (("--spec-method", "ngram", "--spec-tokens", "3"), SpecConfig.chain("ngram", 3)),
        (("--speculative-config", "null"), OFF),
    ],
)  # fmt: skip
def test_every_spelling_is_read_and_taken_out(argv: tuple[str, ...], config: SpecConfig) -> None:
    assert vllm_config.config_of(flags(*argv)) == config
    assert vllm_config.changed(flags("--x", "1", *argv, "--y"), OFF).argv[2:] == ("m", "--x", "1", "--y")


@pytest.mark.parametrize(
    "text", ["{", "[]", '"x"', '{"method": "ngram", "num_speculative_tokens": "4"}', "[" * 9999,
             '{"method": "ngram", "num_speculative_tokens": 0}'],
)  # fmt: skip
def test_a_malformed_configuration_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="speculative-config"):
        vllm_config.config_of(flags("--speculative-config", text))


def test_other_keys_stay_while_the_method_stays_and_a_schedule_goes() -> None:
    own = {
        "method": "eagle3", "model": "d", "draft_tensor_parallel_size": 1, "num_speculative_tokens": 4,
        "num_speculative_tokens_per_batch_size": [[1, 8, 4]],
    }  # fmt: skip
    text = vllm_config.setting_text(flags("-sc", json.dumps(own)), SpecConfig.chain("eagle3", 2))
    assert json.loads(text) == {
        "method": "eagle3", "model": "d", "draft_tensor_parallel_size": 1, "num_speculative_tokens": 2,
    }  # fmt: skip
    other = vllm_config.setting_text(flags("-sc", json.dumps(own)), SpecConfig.chain("ngram", 2))
    assert json.loads(other) == {"method": "ngram", "num_speculative_tokens": 2}


def test_where_vllm_finds_the_method_no_method_is_written() -> None:
    text = vllm_config.setting_text(flags("-sc", '{"model": "d"}'), SpecConfig.chain("auto", 2))
    assert json.loads(text) == {"model": "d", "num_speculative_tokens": 2}


def test_off_does_not_ask_for_metrics_of_speculation() -> None:
    given = flags("--per-request-spec-decode-metrics", "summary", "--x")
    assert vllm_config.changed(given, OFF).argv[2:] == ("m", "--x")
    kept = vllm_config.changed(given, SpecConfig.chain("ngram", 1))
    assert kept.argv[3:5] == ("--per-request-spec-decode-metrics", "summary")
