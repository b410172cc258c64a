"""Secrets are masked before anything is stored."""

import re
from dataclasses import replace
from typing import assert_never

from spectune.domain.command import MASK, Command, is_secret_name, secret_values
from spectune.domain.measurement import LevelMeasurement
from spectune.domain.study import Study
from spectune.domain.trial import Completed, Failed, Infeasible, TrialOutcome, Void

_MIN_SECRET_LENGTH = 4
"""Shorter values are masked in the command only: replacing every "1" in a log would hide the log."""

_PATTERNS = (
    (re.compile(r"(?i)\b(bearer\s+)[^\s\"',;]+"), rf"\1{MASK}"),
    (
        re.compile(r"(?i)((?:api[-_]?key|token|password|secret)[=:]\s*[\"']?)(?!\d+\b)[^\s\"',;&]{6,}"),
        rf"\1{MASK}",
    ),
    (re.compile(r"(\b\w+://)[^/\s:@]+:[^/\s@]+@"), rf"\1{MASK}@"),
    (re.compile(r"\b(?:hf_|sk-)[A-Za-z0-9_-]{8,}"), MASK),
)


def mask_text(text: str, secrets: tuple[str, ...] = ()) -> str:
    """`text` with the given secrets and everything that looks like one replaced.

    >>> mask_text("key abcd1234 at https://me:pw@host/ Authorization: Bearer x.y", ("abcd1234",))
    'key **** at https://****@host/ Authorization: Bearer ****'
    """
    for secret in secrets:
        text = text.replace(secret, MASK)
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text


def secrets_of(command: Command) -> tuple[str, ...]:
    """The secret values a command carries, longest first."""
    found = secret_values(command)
    return tuple(sorted((s for s in found if len(s) >= _MIN_SECRET_LENGTH), key=len, reverse=True))


def mask_study(study: Study) -> Study:
    """The study with its command masked."""
    env = tuple(
        (name, MASK if is_secret_name(name) else mask_text(value)) for name, value in study.command.env
    )
    argv = tuple(mask_text(word, secrets_of(study.command)) for word in study.command.masked_argv)
    return replace(study, command=Command(argv=argv, env=env))


def mask_outcome(outcome: TrialOutcome, secrets: tuple[str, ...]) -> TrialOutcome:
    """The outcome with its free text masked."""
    match outcome:
        case Completed():
            return outcome
        case Failed():
            return replace(
                outcome,
                detail=mask_text(outcome.detail, secrets),
                log_tail=mask_text(outcome.log_tail, secrets),
            )
        case Infeasible() | Void():
            return replace(outcome, reason=mask_text(outcome.reason, secrets))
        case _:
            assert_never(outcome)


def mask_level(level: LevelMeasurement, secrets: tuple[str, ...]) -> LevelMeasurement:
    """The level with its requests' error texts masked."""
    records = tuple(
        replace(record, error=mask_text(record.error, secrets)) if record.error else record
        for record in level.records
    )
    return replace(level, records=records)
