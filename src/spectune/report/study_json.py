"""A study's answers as JSON, schema `spectune.study/1`: see docs/result-schema.md; extended by adding."""

import dataclasses
import json

from spectune.analysis.answers import StudyAnswers, TrialAnswer, UnfinishedAnswer
from spectune.analysis.comparison import CI_LEVEL
from spectune.analysis.recommendation import Recommendation
from spectune.analysis.winners import Winner
from spectune.domain.shortlist import is_narrow
from spectune.domain.trial import Trial
from spectune.metrics.quantiles import Quantiles
from spectune.metrics.summary import LevelSummary
from spectune.report.proof_json import Json, config_json, confirmation_json, proof_json, ranges_json
from spectune.report.why import level_sentences, why

SCHEMA = "spectune.study/1"


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
        "winners": [_winner(winner, answers) for winner in answers.winners],
        "crossovers": [
            {
                "from": config_json(crossover.from_config),
                "to": config_json(crossover.to_config),
                "concurrency": [crossover.low, crossover.high],
                "decided": crossover.decided,
                "certain": _interval(crossover.certain),
                "cause": crossover.cause,
                "narrow": is_narrow(crossover.low, crossover.high),
                "why_wide": answers.why_wide((crossover.low, crossover.high)),
            }
            for crossover in answers.crossovers
        ],
        "recommendation": _recommendation(answers.recommendation),
        **proof_json(answers),
        "cost": dataclasses.asdict(answers.cost),
    }


def _trial(answer: TrialAnswer) -> dict[str, Json]:
    effective = answer.effective
    return {
        "id": answer.trial.id,
        "outcome": answer.outcome,
        "reason": answer.reason,
        **_asked(answer.trial),
        "effective": None
        if effective is None
        else {
            **config_json(effective.config),
            "max_running_requests": effective.max_running_requests,
            "max_total_num_tokens": effective.max_total_num_tokens,
            "differs": effective.differs,
        },
        "launch_s": answer.launch_s,
        "levels": [_level(summary) for summary in answer.levels],
    }


def _asked(trial: Trial) -> dict[str, Json]:
    return {
        "role": trial.role,
        "requested": config_json(trial.config),
        "lever": trial.lever,
        "schedule": ranges_json(trial.schedule),
    }


def _unfinished(answer: UnfinishedAnswer) -> dict[str, Json]:
    return {
        "id": answer.trial.id,
        **_asked(answer.trial),
        "levels": [_level(summary) for summary in answer.levels],
    }


def _level(summary: LevelSummary) -> dict[str, Json]:
    return {
        "concurrency": summary.concurrency,
        "part": summary.part,
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


def _winner(winner: Winner, answers: StudyAnswers) -> dict[str, Json]:
    return {
        "concurrency": winner.concurrency,
        "config": config_json(winner.config),
        "output_tps": winner.output_tps,
        "speedup_over_off": winner.speedup_over_off,
        "speedup_equal_limits": answers.equal_limits_speedup(winner),
        "decided": winner.decided,
        "tie_to_fewer_steps": winner.is_tie_rule,
        "rivals": [
            {
                "config": config_json(rival.config),
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
        "config": config_json(found.config),
        "launch_args": list(found.launch_args),
        "speedup_over_off": {str(level.concurrency): level.speedup_over_off for level in found.levels},
        "speedup_equal_limits": {str(r.concurrency): r.speedup_equal_limits for r in found.levels},
        "why": why(found),
        "why_by_level": level_sentences(found),
        "confirmation": confirmation_json(found.confirmation),
        "instead_of": None if found.instead_of is None else config_json(found.instead_of),
    }
