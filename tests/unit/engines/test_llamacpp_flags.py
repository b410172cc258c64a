import pytest

from spectune.domain.command import Command
from spectune.domain.spec_config import OFF, SpecConfig
from spectune.engines import llamacpp_flags
from spectune.engines.arguments import Flags
from spectune.engines.llamacpp import starts
from spectune.engines.words import engine_words
from spectune.errors import ConfigError


def flags(*argv: str) -> Flags:
    words = engine_words(Command(argv=("llama-server", *argv)), starts, "llama.cpp")
    return Flags(words=words, rule=llamacpp_flags.RULE)


@pytest.mark.parametrize(
    ("argv", "config"),
    [
        ((), OFF),
        (("--spec-type", "none", "-md", "d"), OFF),
        (("-md", "d"), SpecConfig.chain("draft_model", 3)),
        (("-md", "d", "--draft-max", "7"), SpecConfig.chain("draft_model", 7)),
        (("--spec-type", "draft-mtp", "--spec-draft-n-max", "2"), SpecConfig.chain("mtp", 2)),
        (("--spec-type", "ngram-simple"), SpecConfig.chain("ngram", 48)),
        (("--spec-type", "ngram-mod", "--spec-ngram-mod-n-max", "9"), SpecConfig.chain("ngram-mod", 9)),
        (
            ("--spec-type", "ngram-map-k", "--spec-ngram-map-k-size-m", "5"),
            SpecConfig.chain("ngram-map-k", 5),
        ),
    ],
)
def test_flags_mean_what_llama_server_makes_of_them(argv: tuple[str, ...], config: SpecConfig) -> None:
    assert llamacpp_flags.config_of(flags(*argv)) == config


@pytest.mark.parametrize(
    "argv", [("--spec-type", "ngram-simple,draft-mtp"), ("--spec-default",), ("--spec-type",)]
)
def test_what_cannot_be_tuned_is_refused(argv: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError, match="--spec-"):
        llamacpp_flags.config_of(flags(*argv))


def test_off_takes_the_draft_model_away_and_nothing_else() -> None:
    own = flags("-m", "m", "-md", "d", "-ngld", "99", "--spec-default", "-t", "1", "--draft-min", "1")
    assert llamacpp_flags.changed(own, OFF).argv == ("llama-server", "-m", "m", "-t", "1")


def test_a_draft_model_stays_when_another_method_that_needs_one_is_asked_for() -> None:
    """`-md HEAD` alone reads as draft_model, so --method eagle3 must not take the head away."""
    changed = llamacpp_flags.changed(flags("-md", "head.gguf", "-ngld", "9"), SpecConfig.chain("eagle3", 2))
    assert changed.argv == (
        "llama-server", "-md", "head.gguf", "-ngld", "9", "--spec-type", "draft-eagle3",
        "--spec-draft-n-max", "2",
    )  # fmt: skip


def test_the_lookup_is_never_longer_than_the_draft_unless_the_user_says_so() -> None:
    assert llamacpp_flags.setting_flags(flags(), SpecConfig.chain("ngram", 1))[3] == "1"
    assert llamacpp_flags.setting_flags(flags(), SpecConfig.chain("ngram", 9))[3] == "2"
    own = flags("--spec-ngram-simple-size-n", "6")
    assert llamacpp_flags.setting_flags(own, SpecConfig.chain("ngram", 9))[3] == "6"
    assert "never made" in llamacpp_flags.obstacle(own, SpecConfig.chain("ngram", 5))


@pytest.mark.parametrize(
    ("argv", "config", "part"),
    [
        ((), SpecConfig.chain("draft_model", 3), "--spec-draft-model"),
        (("-md", "d", "--spec-draft-n-min", "4"), SpecConfig.chain("draft_model", 3), "thrown away"),
        ((), SpecConfig(method="ngram", num_steps=2, topk=2, num_draft_tokens=4), "chains only"),
        ((), SpecConfig.chain("suffix", 3), "suffix"),
    ],
)
def test_impossible_settings_say_why(argv: tuple[str, ...], config: SpecConfig, part: str) -> None:
    assert part in llamacpp_flags.obstacle(flags(*argv), config)
