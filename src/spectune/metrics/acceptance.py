"""Acceptance from counters, and checks that the counters can be true.

    acceptance_length        1 + accepted ÷ verify_steps (with the bonus token)
    accepted_per_position    share of verify steps whose draft was accepted up to and with that position
    tokens_per_step          output tokens ÷ (verify_steps + undrafted_steps): sequence steps of both kinds

Counters that break an identity are called unreadable, never corrected.
"""

from itertools import pairwise

from spectune.domain.measurement import SpecCounters
from spectune.domain.spec_config import SpecConfig


def acceptance_length(counters: SpecCounters) -> float | None:
    """Tokens per verify step; None when nothing was verified."""
    return 1 + counters.accepted_tokens / counters.verify_steps if counters.verify_steps else None


def accepted_per_position(counters: SpecCounters) -> tuple[float, ...]:
    """Per position, first first; empty when nothing was verified or the engine does not say."""
    if not counters.verify_steps:
        return ()
    return tuple(count / counters.verify_steps for count in counters.accepted_per_position)


def counter_faults(counters: SpecCounters) -> tuple[str, ...]:
    """Identities that a level's counters break whatever the setting; empty when they can be true."""
    faults: list[str] = []
    numbers = (
        counters.verify_steps,
        counters.undrafted_steps,
        counters.drafted_tokens,
        counters.accepted_tokens,
    )
    if min(numbers) < 0:
        faults.append(f"`counters never fall` must hold, got differences {numbers}.")
    if counters.accepted_tokens > counters.drafted_tokens:
        faults.append(
            f"`accepted <= drafted` must hold, got {counters.accepted_tokens} of {counters.drafted_tokens}."
        )
    if counters.drafted_tokens > 0 and counters.verify_steps <= 0:
        faults.append(
            f"`drafted tokens come with verify steps` must hold, got {counters.verify_steps} steps."
        )
    positions = counters.accepted_per_position
    if positions and sum(positions) != counters.accepted_tokens:
        faults.append(
            f"`accepted tokens = sum over positions` must hold, got {counters.accepted_tokens} "
            f"and {sum(positions)}."
        )
    if any(later > earlier for earlier, later in pairwise(positions)):
        faults.append(f"`a later position is accepted no more often` must hold, got {positions}.")
    return tuple(faults)


def setting_faults(
    counters: SpecCounters, config: SpecConfig, *, num_requests: int, output_tokens: int
) -> tuple[str, ...]:
    """Identities that a level's counters break under this setting.

    Each request's first token comes from prefill and its last step may be cut short, so the tokens of the
    steps and those of the answers may differ by one step's tokens per request.

    Args:
        counters: difference over the level.
        config: the effective setting.
        num_requests: requests that ended well.
        output_tokens: their output tokens, by usage.
    """
    faults = list(counter_faults(counters))
    length = acceptance_length(counters)
    if length is not None and not 1 <= length <= config.num_steps + 1:
        faults.append(f"`1 <= acceptance length <= {config.num_steps + 1}` must hold, got {length:.3f}.")
    by_steps = counters.accepted_tokens + counters.verify_steps + counters.undrafted_steps
    slack = num_requests * (config.num_steps + 1)
    if abs(by_steps + num_requests - output_tokens) > slack:
        faults.append(
            "`output tokens = first tokens + accepted + steps, to within a step per request` must hold, "
            f"got {output_tokens} and {num_requests} + {by_steps}."
        )
    return tuple(faults)
