"""Requested is not effective: whether a server runs what was asked for, by settings and counters. Pure."""

from collections.abc import Mapping

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
    if requested.is_off:
        return ""
    if counters.verify_steps <= 0:
        return "speculation is not really on: its draft counter did not rise under load"
    most = counters.verify_steps * (requested.num_draft_tokens - 1)
    if counters.drafted_tokens > most:
        return (
            f"drafts are longer than asked for: {counters.drafted_tokens} tokens in {counters.verify_steps} "
            f"verify steps, {most} at most"
        )
    return ""


def covariates_differ(first: Mapping[str, str], now: Mapping[str, str]) -> str:
    """What differs in a covariate that both arms declare, or ""."""
    differences = [
        f"{name} is {now[name]} here and {first[name]} in the first arm"
        for name in first
        if name in now and first[name] != now[name]
    ]
    return "; ".join(differences)
