import pytest

from spectune.cli.tune_options import parse_tune_options
from spectune.domain.study import ProofRule
from spectune.errors import ConfigError


def proof(*words: str) -> ProofRule:
    return parse_tune_options(words).proof


def test_by_default_an_answer_is_confirmed_once_and_checked() -> None:
    assert proof() == ProofRule(rounds=1, refine=2, has_equal_limits=True, is_lossless=True)


def test_thorough_runs_every_proof() -> None:
    found = proof("--thorough")
    assert (found.rounds, found.refine) == (2, 3)
    assert found.has_schedule
    assert found.has_equal_limits
    assert found.is_lossless


def test_each_part_can_be_asked_for_or_left_out() -> None:
    found = proof("--confirm", "0", "--refine", "2", "--schedule", "--no-check-lossless")
    assert found == ProofRule(rounds=0, refine=2, has_schedule=True)
    assert not proof("--thorough", "--no-schedule").has_schedule
    assert proof("--thorough", "--confirm", "0").has_equal_limits


def test_a_mix_decides_the_levels_unless_they_are_given() -> None:
    options = parse_tune_options(["--mix", "1:0.6,4:0.3,16:0.1", "--slo", "ttft_p99=0.5s"])
    assert options.proof.mix == ((1, 0.6), (4, 0.3), (16, 0.1))
    assert options.proof.slo == (("ttft_p99", 0.5),)
    assert options.concurrency == (1, 4, 16)
    assert parse_tune_options(["--mix", "chat", "--concurrency", "1,32"]).concurrency == (1, 32)


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        (("--mix", "chat", "--concurrency", "4,8"), "its levels lie within --concurrency"),
        (("--mix", "no-such-thing"), "a request log"),
        (("--slo", "ttft=1s"), "ttft_p99=0.5s"),
        (("--confirm", "-1"), "--confirm >= 0"),
        (("--confirm", "21"), "--confirm <= 20"),
        (("--refine", "1000"), "--refine <= 20"),
        (("--refine", "many"), "a whole number"),
        (("--resume", "--confirm", "2"), "the question it began with"),
    ],
)
def test_wrong_proofs_are_refused(words: tuple[str, ...], rule: str) -> None:
    with pytest.raises(ConfigError, match=rule):
        parse_tune_options(words)
