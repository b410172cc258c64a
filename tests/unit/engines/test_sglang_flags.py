import pytest

from spectune.domain.command import Command
from spectune.domain.spec_config import OFF, SpecConfig
from spectune.engines import sglang_flags
from spectune.engines.arguments import Flags
from spectune.engines.words import engine_words
from spectune.errors import ConfigError


def flags(*argv: str) -> Flags:
    command = Command(argv=("sglang", "serve", *argv))
    return Flags(words=engine_words(command, sglang_flags.starts, "SGLang"))


@pytest.mark.parametrize(
    ("argv", "config"),
    [
        ((), OFF),
        (("--speculative-num-steps", "3"), OFF),
        (("--speculative-algorithm", "NEXTN"), SpecConfig.chain("eagle", 3)),
        (("--speculative-algorithm=eagle", "--speculative-num-steps=5"), SpecConfig.chain("eagle", 5)),
        (
            # SGLang resets the 9 to 4 with a warning only (transcript K6-mismatch).
            ("--speculative-algorithm", "EAGLE3", "--speculative-num-steps", "3",
             "--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "9"),
            SpecConfig.chain("eagle3", 3),
        ),
        (
            ("--speculative-algorithm", "EAGLE", "--speculative-num-steps", "3",
             "--speculative-eagle-topk", "4", "--speculative-num-draft-tokens", "8"),
            SpecConfig(method="eagle", num_steps=3, topk=4, num_draft_tokens=8),
        ),
        (
            ("--speculative-algorithm", "NGRAM", "--speculative-num-draft-tokens", "6",
             "--speculative-ngram-max-bfs-breadth", "1"),
            SpecConfig.chain("ngram", 5),
        ),
    ],
)  # fmt: skip
def test_flags_mean_what_sglang_makes_of_them(argv: tuple[str, ...], config: SpecConfig) -> None:
    assert sglang_flags.config_of(flags(*argv)) == config


@pytest.mark.parametrize(
    "argv",
    [
        ("--speculative-algorithm", "MAGIC"),
        ("--speculative-algorithm",),
        ("--speculative-algorithm", "EAGLE", "--speculative-num-steps", "many"),
        ("--speculative-algo", "EAGLE"),
        ("--speculative-algorithm", "EAGLE", "--speculative-num-steps", "-1"),
    ],
)
def test_malformed_flags_are_refused(argv: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError):
        sglang_flags.config_of(flags(*argv))


OWN = (
    "--x", "1", "--speculative-algorithm", "EAGLE", "--speculative-draft-model-path", "d",
    "--speculative-use-rejection-sampling", "--y", "--speculative-token-map=t",
    "--speculative-num-steps", "2",
)  # fmt: skip


def test_flags_of_the_method_stay_while_it_stays() -> None:
    changed = sglang_flags.changed(flags(*OWN), SpecConfig.chain("eagle", 4))
    assert changed.argv[2:9] == (
        "--x", "1", "--speculative-draft-model-path", "d", "--speculative-use-rejection-sampling", "--y",
        "--speculative-token-map=t",
    )  # fmt: skip


@pytest.mark.parametrize("config", [OFF, SpecConfig.chain("ngram", 2)])
def test_off_and_another_method_lose_them(config: SpecConfig) -> None:
    changed = sglang_flags.changed(flags(*OWN), config)
    assert changed.argv == ("sglang", "serve", "--x", "1", "--y", *sglang_flags.setting_flags(config))


def test_a_schedule_gives_way_to_a_fixed_setting() -> None:
    schedule = ("--speculative-adaptive", "--speculative-adaptive-config", "a.json")
    own = flags(*OWN, *schedule, "--speculative-eagle-topk", "1")
    assert not {"--speculative-adaptive", "a.json"} & set(
        sglang_flags.changed(own, SpecConfig.chain("eagle", 4)).argv
    )
