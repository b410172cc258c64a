"""The flags of `spectune serve`: SGLang's meaning, contradictions named, exit status 2."""

import pytest

from spectune.cpu_engine.command import _options, _parser
from spectune.cpu_engine.options import EngineOptions


def read(*argv: str) -> EngineOptions:
    parser = _parser()
    return _options(parser, parser.parse_args(argv))


def test_without_flags_speculation_is_off() -> None:
    got = read()
    assert (got.method, got.num_steps, got.topk, got.num_draft_tokens) == ("off", 0, 1, 1)


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["EAGLE"], ("eagle", 3, 1, 4)),
        (["eagle", "--speculative-num-steps", "5"], ("eagle", 5, 1, 6)),
        (["STANDALONE", "--speculative-num-steps", "2"], ("draft_model", 2, 1, 3)),
        (["NGRAM", "--speculative-num-draft-tokens", "6"], ("ngram", 5, 1, 6)),
        (["NGRAM", "--speculative-num-steps", "4"], ("ngram", 4, 1, 5)),
        (["EAGLE", "--speculative-num-steps", "0"], ("off", 0, 1, 1)),
        (["EAGLE", "--speculative-num-steps", "3", "--speculative-eagle-topk", "2"], ("eagle", 3, 2, 7)),
        (
            ["EAGLE", "--speculative-num-steps", "3", "--speculative-eagle-topk", "4",
             "--speculative-num-draft-tokens", "16"],
            ("eagle", 3, 4, 16),
        ),
    ],
)  # fmt: skip
def test_speculation_flags(argv: list[str], expected: tuple[str, int, int, int]) -> None:
    got = read("--speculative-algorithm", *argv)
    assert (got.method, got.num_steps, got.topk, got.num_draft_tokens) == expected


@pytest.mark.parametrize(
    ("argv", "rule"),
    [
        (["--speculative-num-steps", "3"], "--speculative-algorithm"),
        (["--speculative-algorithm", "MEDUSA"], "invalid choice"),
        (["--speculative-algorithm", "NGRAM", "--speculative-eagle-topk", "2"], "NGRAM"),
        (["--speculative-algorithm", "EAGLE", "--speculative-num-steps", "99"], "num-steps <= 16"),
        (["--speculative-algorithm", "EAGLE", "--speculative-num-steps", "3",
          "--speculative-num-draft-tokens", "9"], "num_draft_tokens = num_steps + 1"),
        (["--speculative-algorithm", "EAGLE", "--speculative-num-steps", "3", "--speculative-eagle-topk", "2",
          "--speculative-num-draft-tokens", "40"], "num_draft_tokens <= 11"),
        (["--port", "x"], "0 <= port <= 65535"),
        (["--threads", "0"], "1 <= threads <= 64"),
        (["--colour", "red"], "unrecognized"),
        (["--spec", "EAGLE"], "unrecognized"),
    ],
)  # fmt: skip
def test_bad_flags_end_with_status_2_and_the_rule(
    argv: list[str], rule: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        read(*argv)
    assert ended.value.code == 2
    message = capsys.readouterr().err
    assert rule in message
    assert "Traceback" not in message
