from dataclasses import replace

import pytest

from spectune.domain.measurement import SpecCounters
from spectune.domain.spec_config import OFF, SpecConfig
from spectune.metrics.acceptance import (
    acceptance_length,
    accepted_per_position,
    counter_faults,
    setting_faults,
)

GOOD = SpecCounters(
    verify_steps=100,
    undrafted_steps=2,
    drafted_tokens=300,
    accepted_tokens=150,
    accepted_per_position=(70, 50, 30),
)
STILL = SpecCounters(verify_steps=0, undrafted_steps=40, drafted_tokens=0, accepted_tokens=0)
CHAIN = SpecConfig.chain("eagle", 3)


def test_the_length_counts_the_bonus_token() -> None:
    assert acceptance_length(GOOD) == 2.5
    assert accepted_per_position(GOOD) == (0.7, 0.5, 0.3)


def test_without_verification_there_is_no_acceptance() -> None:
    assert acceptance_length(STILL) is None
    assert accepted_per_position(STILL) == ()


def test_true_counters_have_no_fault() -> None:
    assert setting_faults(GOOD, CHAIN, num_requests=4, output_tokens=254) == ()
    assert setting_faults(STILL, OFF, num_requests=2, output_tokens=42) == ()


@pytest.mark.parametrize(
    ("broken", "rule"),
    [
        (replace(GOOD, verify_steps=-1), "never fall"),
        (replace(GOOD, drafted_tokens=100), "accepted <= drafted"),
        (replace(GOOD, verify_steps=0), "come with verify steps"),
        (replace(GOOD, accepted_per_position=(70, 50, 31)), "sum over positions"),
        (replace(GOOD, accepted_per_position=(50, 70, 30)), "later position"),
    ],
)
def test_counters_that_cannot_be_true_are_told(broken: SpecCounters, rule: str) -> None:
    assert any(rule in fault for fault in counter_faults(broken))


def test_an_acceptance_beyond_the_setting_is_told() -> None:
    faults = setting_faults(GOOD, SpecConfig.chain("eagle", 1), num_requests=4, output_tokens=254)
    assert any("acceptance length <= 2" in fault for fault in faults)


def test_tokens_that_the_steps_do_not_account_for_are_told() -> None:
    faults = setting_faults(GOOD, CHAIN, num_requests=4, output_tokens=300)
    assert any("output tokens" in fault for fault in faults)
