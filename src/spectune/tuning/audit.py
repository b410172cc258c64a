"""Requested is not effective: whether a server runs what was asked for, by settings and counters. Pure."""

from collections.abc import Mapping

from spectune.domain.measurement import SpecCounters
from spectune.domain.trial import EffectiveSettings, Trial

_KEYS = ("method", "num_steps", "topk", "num_draft_tokens")


def settings_differ(trial: Trial, effective: EffectiveSettings) -> str:
    """What differs in a speculative key, or ""."""
    requested, runs = trial.config, effective.config
    differences = [
        f"{key} {getattr(requested, key)} was asked for, {getattr(runs, key)} runs"
        for key in _KEYS
        if getattr(requested, key) != getattr(runs, key)
    ]
    if trial.schedule != effective.schedule:
        asked, found = (
            "none" if schedule is None else schedule.label
            for schedule in (trial.schedule, effective.schedule)
        )
        differences.append(f"schedule {asked} was asked for, {found} runs")
    return "; ".join(differences)


def speculation_differs(trial: Trial, effective: EffectiveSettings, counters: SpecCounters | None) -> str:
    """What the counters of a measured level say against the setting in force, or "".

    Under a schedule with a range of 0 steps a level may well pass without a draft.
    """
    if counters is None:
        return ""
    config = effective.config
    if config.is_off and counters.verify_steps > 0:
        return f"speculation was asked to be off, but {counters.verify_steps} verify steps were counted"
    if config.is_off:
        return ""
    may_rest = trial.schedule is not None and any(part.num_steps == 0 for part in trial.schedule.ranges)
    if counters.verify_steps <= 0 and not may_rest:
        return "speculation is not really on: its draft counter did not rise under load"
    most = counters.verify_steps * (config.num_draft_tokens - 1)
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
