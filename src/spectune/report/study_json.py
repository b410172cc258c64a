"""A study's answers as JSON, schema `spectune.study/1`: see docs/result-schema.md; extended by adding."""

import dataclasses
import json
from collections.abc import Mapping, Sequence

from spectune.analysis.answers import StudyAnswers, TrialAnswer, UnfinishedAnswer
from spectune.analysis.comparison import CI_LEVEL
from spectune.analysis.recommendation import Recommendation
from spectune.analysis.winners import Winner
from spectune.domain.spec_config import SpecConfig
from spectune.metrics.quantiles import Quantiles
from spectune.metrics.summary import LevelSummary
from spectune.report.why import why

SCHEMA = "spectune.study/1"
Json = None | bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"]


def render_json(answers: StudyAnswers) -> str:
    """The answers as JSON text, two spaces deep, ending with a line break."""
    return json.dumps(study_json(answers), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def study_json(answers: StudyAnswers) -> dict[str, Json]:
    """The answers as plain values."""
    study = answers.study
    return {
        "schema": SCHEMA,
        "study_id": study.id,
        "created_unix_s": study.created_unix_s,
        "finished": answers.finished,
        "engine": {"name": study.engine, "version": answers.engine_version},
        "command": study.command.printable,
        "workload": dataclasses.asdict(study.workload),
        "environment": {
            **dataclasses.asdict(study.environment),
            "libraries": dict(study.environment.libraries),
        },
        "concurrency": list(study.concurrency),
        "ci_level": CI_LEVEL,
        "trials": [_trial(trial) for trial in answers.trials],
        "unfinished": [_unfinished(unfinished) for unfinished in answers.unfinished],
        "winners": [_winner(winner) for winner in answers.winners],
        "crossovers": [
            {
                "from": _config(crossover.from_config),
                "to": _config(crossover.to_config),
                "concurrency": [crossover.low, crossover.high],
                "decided": crossover.decided,
            }
            for crossover in answers.crossovers
        ],
        "recommendation": _recommendation(answers.recommendation),
        "cost": dataclasses.asdict(answers.cost),
    }


def _config(config: SpecConfig) -> dict[str, Json]:
    return dataclasses.asdict(config)


def _trial(answer: TrialAnswer) -> dict[str, Json]:
    effective = answer.effective
    return {
        "id": answer.trial.id,
        "outcome": answer.outcome,
        "reason": answer.reason,
        "role": answer.trial.role,
        "requested": _config(answer.trial.config),
        "effective": None
        if effective is None
        else {
            **_config(effective.config),
            "max_running_requests": effective.max_running_requests,
            "max_total_num_tokens": effective.max_total_num_tokens,
            "differs": effective.differs,
        },
        "launch_s": answer.launch_s,
        "levels": [_level(summary) for summary in answer.levels],
    }


def _unfinished(answer: UnfinishedAnswer) -> dict[str, Json]:
    return {
        "id": answer.trial.id,
        "role": answer.trial.role,
        "requested": _config(answer.trial.config),
        "levels": [_level(summary) for summary in answer.levels],
    }


def _level(summary: LevelSummary) -> dict[str, Json]:
    return {
        "concurrency": summary.concurrency,
        "num_requests": summary.num_requests,
        "output_tps": summary.output_tps,
        "output_tps_ci": _interval(summary.output_tps_ci),
        "request_tps": summary.request_tps,
        "ttft_s": _quantiles(summary.ttft_s),
        "tpot_s": _quantiles(summary.tpot_s),
        "e2e_s": _quantiles(summary.e2e_s),
        "acceptance_length": summary.acceptance_length,
        "accepted_per_position": list(summary.accepted_per_position),
        "verify_steps": summary.verify_steps,
        "undrafted_steps": summary.undrafted_steps,
        "drafted_tokens": summary.drafted_tokens,
        "accepted_tokens": summary.accepted_tokens,
        "step_s": summary.step_s,
        "tokens_per_step": summary.tokens_per_step,
        "mean_running": summary.mean_running,
        "window_s": summary.window_s,
        "disturbed": summary.disturbed,
        "foreign_cpu_share": summary.foreign_cpu_share,
        "attempt": summary.attempt,
        "errors": summary.errors,
    }


def _quantiles(quantiles: Quantiles) -> dict[str, Json]:
    return dataclasses.asdict(quantiles)


def _interval(interval: tuple[float, float] | None) -> Json:
    return None if interval is None else list(interval)


def _winner(winner: Winner) -> dict[str, Json]:
    return {
        "concurrency": winner.concurrency,
        "config": _config(winner.config),
        "output_tps": winner.output_tps,
        "speedup_over_off": winner.speedup_over_off,
        "decided": winner.decided,
        "tie_to_fewer_steps": winner.is_tie_rule,
        "rivals": [
            {
                "config": _config(rival.config),
                "ratio": rival.difference.ratio,
                "ratio_ci": _interval(rival.difference.ratio_ci),
            }
            for rival in winner.rivals
        ],
    }


def _recommendation(found: Recommendation | None) -> Json:
    if found is None:
        return None
    return {
        "config": _config(found.config),
        "launch_args": list(found.launch_args),
        "speedup_over_off": {str(level.concurrency): level.speedup_over_off for level in found.levels},
        "why": why(found),
    }
