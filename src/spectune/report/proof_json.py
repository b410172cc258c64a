"""What was done to prove an answer, as JSON values: the keys of docs/result-schema.md beside the search's."""

import dataclasses
from collections.abc import Mapping, Sequence

from spectune.analysis.answer_texts import Divergence
from spectune.analysis.answers import StudyAnswers
from spectune.analysis.comparison import SpeedDifference
from spectune.analysis.confirmation import Confirmation
from spectune.analysis.levers import LeverAnswer
from spectune.analysis.lossless import Lossless
from spectune.analysis.noise import Noise
from spectune.analysis.recommendation import Recommendation
from spectune.analysis.schedule_answer import ScheduleAnswer, ScheduleLevel
from spectune.domain.schedule import Schedule
from spectune.domain.shortlist import is_narrow
from spectune.domain.spec_config import SpecConfig
from spectune.report.proof_text import caveat_text, schedule_why

Json = None | bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"]


def proof_json(answers: StudyAnswers) -> dict[str, Json]:
    """The keys that tell how an answer was proved."""
    chosen = answers.recommendation
    return {
        "baselines": {
            "equal_limits": answers.baselines.equal_limits,
            "own_capacity": answers.baselines.own_capacity,
        },
        "break_even": {
            "concurrency": _pair(answers.break_even.concurrency),
            "why": answers.break_even.why,
            "uncertain": list(answers.break_even.uncertain),
            "narrow": None
            if answers.break_even.concurrency is None
            else is_narrow(*answers.break_even.concurrency),
            "why_wide": ""
            if answers.break_even.concurrency is None
            else answers.why_wide(answers.break_even.concurrency),
        },
        "schedule": None if answers.schedule is None else _schedule(answers.schedule),
        "levers": [_lever(found) for found in answers.levers],
        "lossless": _lossless(answers.lossless),
        "mix": None if chosen is None else _mix(chosen, answers.schedule),
        "noise": _noise(answers.noise),
        "caveats": [
            {
                "kind": caveat.kind,
                "config": None if caveat.config is None else config_json(caveat.config),
                "concurrency": list(caveat.concurrency),
                "text": caveat_text(caveat),
            }
            for caveat in answers.caveats
        ],
    }


def confirmation_json(found: Confirmation) -> dict[str, Json]:
    """What fresh prompts and a fresh launch said."""
    return {
        "verdict": found.verdict,
        "launches": found.launches,
        "failure": found.failure,
        **_difference("over_off", found.over_off),
        "rival": None if found.rival is None else config_json(found.rival),
        **_difference("over_rival", found.over_rival),
        "levels": [
            {
                "concurrency": level.concurrency,
                "output_tps": level.output_tps,
                **_difference("fresh_over_search", level.fresh_over_search),
                **_difference("over_off", level.over_off),
            }
            for level in found.levels
        ],
    }


def config_json(config: SpecConfig) -> dict[str, Json]:
    """A setting."""
    return dataclasses.asdict(config)


def ranges_json(schedule: Schedule | None) -> Json:
    """[lo, hi or null, num_steps] of each range; null for a fixed setting."""
    if schedule is None:
        return None
    return [[part.low, part.high, part.num_steps] for part in schedule.ranges]


def _schedule(found: ScheduleAnswer) -> dict[str, Json]:
    return {
        "ranges": ranges_json(found.schedule),
        "exported": dict(found.exported),
        "measured": [_schedule_level(level) for level in found.measured],
        "verdict": found.verdict,
        "why": schedule_why(found),
        "best_fixed": config_json(found.best_fixed),
        **_difference("mean_gain", found.mean_gain),
    }


def _schedule_level(level: ScheduleLevel) -> dict[str, Json]:
    return {
        "concurrency": level.concurrency,
        "ramp": level.is_ramp,
        "output_tps": level.output_tps,
        "output_tps_ci": _pair(level.output_tps_ci),
        **_difference("vs_off", level.vs_off),
        **_difference("vs_best_fixed", level.vs_best_fixed),
    }


def _lossless(found: Lossless) -> dict[str, Json]:
    return {
        "checked_tokens": found.checked_tokens,
        "noise_floor": found.floor.agreement,
        "agreement": found.total.agreement,
        "first_divergence": _divergence(found.first),
        "verdict": found.verdict,
        "why": found.why,
        "arms": [
            {
                "config": config_json(one.arm.config),
                "schedule": ranges_json(one.arm.schedule),
                "checked_tokens": one.found.tokens,
                "answers": one.found.answers,
                "differing": one.found.differing,
                "agreement": one.found.agreement,
                "first_divergence": _divergence(one.found.first),
                "valid": list(one.valid),
                "valid_off": list(one.valid_off),
                "tool_calls": list(one.calls),
                "tool_calls_off": list(one.calls_off),
                "verdict": one.verdict,
            }
            for one in found.arms
        ],
    }


def _divergence(found: Divergence | None) -> Json:
    return None if found is None else dataclasses.asdict(found)


def _mix(chosen: Recommendation, schedule: ScheduleAnswer | None) -> dict[str, Json]:
    return {
        "asked": chosen.mix.is_asked,
        "levels": [
            {"concurrency": level.concurrency, "share": level.share, "taken_from": list(level.neighbours)}
            for level in chosen.mix.levels
        ],
        "best_fixed": config_json(chosen.config),
        "best_fixed_losses": {str(level.concurrency): level.loss for level in chosen.levels},
        "best_schedule": None if schedule is None else ranges_json(schedule.schedule),
        "best_schedule_losses": {}
        if schedule is None
        else {str(level): loss for level, loss in schedule.losses},
        "limits": [
            {
                "config": config_json(check.config),
                "concurrency": check.concurrency,
                "name": check.name,
                "limit_s": check.limit_s,
                "value_s": check.value_s,
                "low_s": check.interval_s[0],
                "high_s": check.interval_s[1],
                "kept": check.is_kept,
                "judged_by": check.judged_by,
                "told": check.is_told,
            }
            for check in chosen.limits
        ],
        "keeps_limits": chosen.keeps_limits,
    }


def _noise(noise: Noise) -> dict[str, Json]:
    drift = noise.drift
    return {
        "prompt_sd": noise.prompt_sd,
        "block_sd": noise.block_sd,
        "launch_sd": noise.launch_sd,
        "launch_degrees": noise.launch_degrees,
        "repeats": noise.num_repeats,
        "drift": None
        if drift is None
        else {"ratio": drift.ratio, "ratio_ci": list(drift.ratio_ci), "arms": drift.num_arms},
    }


def _lever(found: LeverAnswer) -> dict[str, Json]:
    return {
        "config": config_json(found.config),
        "lever": found.lever,
        "max_running_requests": found.capacity,
        "levels": [
            {
                "concurrency": level.concurrency,
                "output_tps": level.output_tps,
                **_difference("vs_recommended", level.vs_recommended),
            }
            for level in found.levels
        ],
        **_difference("mean_gain", found.mean_gain),
        "verdict": found.verdict,
    }


def _difference(name: str, found: SpeedDifference | None) -> dict[str, Json]:
    """A ratio and its interval, as NAME and NAME_ci."""
    if found is None:
        return {name: None, f"{name}_ci": None}
    return {name: found.ratio, f"{name}_ci": _pair(found.ratio_ci)}


def _pair(ends: tuple[float, float] | None) -> Json:
    return None if ends is None else list(ends)
