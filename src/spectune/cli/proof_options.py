"""The options of `spectune tune` that say how far an answer is proven before it is recommended."""

import argparse

from spectune.cli.options import parse_count
from spectune.domain.study import ProofRule
from spectune.workloads.mixes import read_slo

PROOF = ("confirm", "refine", "schedule", "check_lossless", "mix", "slo")
TWO_WAY = frozenset({"schedule", "check_lossless"})
"""Options that are given as `--NAME` or `--no-NAME`."""
_MOST = 20
"""Rounds of fresh launches, and levels within a crossover, that may be asked for."""
_DEFAULT = ProofRule(rounds=1, refine=2, has_equal_limits=True, is_lossless=True)
_THOROUGH = ProofRule(rounds=2, refine=3, has_schedule=True, has_equal_limits=True, is_lossless=True)


def add_proof_arguments(group: argparse._ArgumentGroup) -> None:  # (argparse names no public type)
    """Adds them."""
    either = argparse.BooleanOptionalAction
    group.add_argument(
        "--confirm", metavar="N",
        help="fresh launches of the finalists on fresh prompts, up to 20 (default 1; 2 with --thorough; 0: "
        "none)",
    )  # fmt: skip
    group.add_argument(
        "--refine", metavar="N",
        help="levels a launch measures within wide crossovers (default 2; 3 with --thorough)",
    )  # fmt: skip
    group.add_argument(
        "--schedule", action=either,
        help="start and measure a schedule of steps by batch size (default with --thorough)",
    )  # fmt: skip
    group.add_argument(
        "--check-lossless", action=either, help="compare greedy outputs with those of off (default)"
    )
    group.add_argument(
        "--mix", metavar="MIX",
        help="what the recommendation is for: 1:0.6,4:0.3,16:0.1; agentic-coding, chat or batch; a request "
        "log; or http://HOST:PORT of a running server, which is watched for a minute",
    )  # fmt: skip
    group.add_argument(
        "--slo", metavar="LIMITS", help="latency limits it must keep: ttft_p99=0.5s,tpot_p50=15ms"
    )


def read_proof(found: argparse.Namespace, *, is_thorough: bool) -> ProofRule:
    """What the options ask for, without the mix, which may take a minute to load; raises ConfigError."""
    base = _THOROUGH if is_thorough else _DEFAULT
    rounds = _count(found.confirm, "--confirm", base.rounds)
    return ProofRule(
        rounds=rounds,
        refine=_count(found.refine, "--refine", base.refine),
        has_schedule=base.has_schedule if found.schedule is None else found.schedule,
        has_equal_limits=is_thorough or rounds > 0,
        is_lossless=base.is_lossless if found.check_lossless is None else found.check_lossless,
        slo=read_slo(found.slo) if found.slo else (),
    )


def _count(text: str | None, flag: str, default: int) -> int:
    return default if text is None else parse_count(text, flag=flag, lowest=0, highest=_MOST)
