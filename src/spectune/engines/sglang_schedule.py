"""SGLang's adaptive mode as a schedule by batch size: what can run it, and whether a server does. Pure.

Versions (source of 0.5.9 to 0.5.23): none before 0.5.12; 0.5.12 has one flat list of candidates without batch
sizes; 0.5.13 has them by batch size, 1 step and more; a range of 0 steps from 0.5.15 on. Where SGLang cannot
follow a schedule it logs "speculative_adaptive disabled: …" and runs the start value for every batch.
0.5.17 was recorded (one candidate per range, switches in its log).
"""

import re

from spectune.domain.schedule import Schedule
from spectune.domain.spec_config import SpecConfig
from spectune.engines.arguments import Flags
from spectune.engines.json_answer import JsonAnswer
from spectune.engines.known_bugs import version_key
from spectune.engines.schedule_forms import adaptive_obstacle, read_adaptive_json
from spectune.engines.sglang_flags import ADAPTIVE

DISABLING = (
    "--enable-dp-attention", "--enable-multi-layer-eagle", "--enable-two-batch-overlap", "--enable-pdmux",
)  # fmt: skip
"""Flags beside which SGLang drops a schedule with a warning only."""

_FLAT, _BY_BATCH, _WITH_ZERO = (0, 5, 12), (0, 5, 13), (0, 5, 15)
_REFUSED = re.compile(r"speculative_adaptive disabled: .*")
_BUILT = re.compile(r"Built adaptive runtime state steps=([0-9]+)")


def obstacle(flags: Flags, config: SpecConfig, schedule: Schedule, *, version: str, help_text: str) -> str:
    """Why SGLang cannot run this schedule, or ""; a version that is not known ("") is taken for a new one."""
    found = adaptive_obstacle(schedule, config) or _too_old(schedule, version)
    if found:
        return found
    if help_text and ADAPTIVE[1] not in help_text:
        return f"this SGLang's --help does not name {ADAPTIVE[1]}."
    disabling = [flag for flag in DISABLING if flags.has(flag)]
    return f"SGLang silently drops a schedule beside {disabling[0]}." if disabling else ""


def in_force(info: JsonAnswer, log: str, file_text: str) -> Schedule | None:
    """The schedule that the server follows; None where it follows none, or not this file's.

    Args:
        info: `/server_info`, whose `speculative_adaptive` is false where SGLang dropped the schedule.
        log: of the server so far. Where it names the states built, every step but the start's must be one.
        file_text: what we wrote into the file that the command names, "" when it is not ours.
    """
    if info.value("speculative_adaptive") is not True or not file_text:
        return None
    schedule = read_adaptive_json(file_text)
    if schedule is None:
        return None
    built = {int(steps) for steps in _BUILT.findall(log)}
    wanted = {part.num_steps for part in schedule.ranges} - {schedule.max_steps}
    return None if built and not wanted <= built else schedule


def refusal(log: str) -> str:
    """SGLang's own words that it follows no schedule, "" where it says nothing of the kind."""
    found = _REFUSED.search(log)
    return found[0].strip() if found else ""


def _too_old(schedule: Schedule, version: str) -> str:
    if not version:
        return ""
    key = version_key(version)
    if key < _FLAT:
        return f"SGLang {version} has no adaptive mode; 0.5.13 has."
    if key < _BY_BATCH:
        return f"the adaptive mode of SGLang {version} knows no batch sizes; 0.5.13 does."
    if key < _WITH_ZERO and any(part.num_steps == 0 for part in schedule.ranges):
        return f"SGLang {version} has no range of 0 steps ({schedule.label}); 0.5.15 has."
    return ""
