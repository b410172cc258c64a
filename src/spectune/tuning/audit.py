"""Requested is not effective: whether a server runs what was asked for, by settings and counters. Pure."""

from spectune.domain.measurement import SpecCounters
from spectune.domain.spec_config import SpecConfig

_KEYS = ("method", "num_steps", "topk", "num_draft_tokens")


def settings_differ(requested: SpecConfig, effective: SpecConfig) -> str:
    """What differs in a speculative key, or ""."""
    differences = [
        f"{key} {getattr(requested, key)} was asked for, {getattr(effective, key)} runs"
        for key in _KEYS
        if getattr(requested, key) != getattr(effective, key)
    ]
    return "; ".join(differences)


def speculation_differs(requested: SpecConfig, counters: SpecCounters | None) -> str:
    """What the counters of a measured level say against the setting, or ""."""
    if counters is None:
        return ""
    if requested.is_off and counters.verify_steps > 0:
        return f"speculation was asked to be off, but {counters.verify_steps} verify steps were counted"
    if not requested.is_off and counters.verify_steps <= 0:
        return "speculation is not really on: its draft counter did not rise under load"
    return ""
