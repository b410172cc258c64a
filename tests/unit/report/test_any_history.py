"""Whatever was measured, however little or odd, there is a page, and JSON that keeps the schema."""

import json
import random
from dataclasses import replace
from typing import cast

import pytest

from spectune.analysis.answers import answer
from spectune.analysis.shortlist import shortlist
from spectune.domain.measurement import LevelMeasurement
from spectune.domain.schedule import Schedule
from spectune.domain.study import ProofRule, StudyHistory
from spectune.domain.trial import Completed, Role, Trial, TrialOutcome
from spectune.domain.workload import Part
from spectune.report.study_document import study_document
from spectune.report.study_json import render_json
from spectune.report.terminal import render_terminal
from spectune.testing.result_schema import schema_faults
from spectune.testing.study_values import (
    make_effective,
    make_failed,
    make_history,
    make_level,
    make_study,
    make_trial,
)

PARTS = cast("list[Part]", ["search", "fresh", "ramp"])
ROLES = cast("list[Role]", ["setting", "confirm", "repeat", "schedule"])


def odd_history(seed: int) -> StudyHistory:
    draw = random.Random(seed)
    levels = tuple(sorted(draw.sample([1, 2, 4, 8, 16], draw.randint(1, 4))))
    outcomes = tuple(odd_outcome(draw, number, levels) for number in range(1, draw.randint(2, 9)))
    history = make_history(make_study(concurrency=levels), outcomes)
    mix = tuple((level, draw.random() + 0.1) for level in draw.sample([1, 3, 8, 64], 2))
    proof = ProofRule(mix=mix, slo=(("ttft_p99", 0.05), ("tpot_p50", 0.01)))
    return history if draw.random() < 0.5 else replace(history, study=replace(history.study, proof=proof))


def odd_outcome(draw: random.Random, number: int, levels: tuple[int, ...]) -> TrialOutcome:
    num_steps = draw.choice([0, 0, 1, 2])
    trial = odd_trial(draw, make_trial(number, num_steps))
    found = tuple(
        odd_level(draw, level, part, num_steps)
        for level in draw.sample([*levels, 6, 23], draw.randint(0, len(levels) + 2))
        for part in draw.sample(PARTS, draw.randint(1, 3))
    )
    if draw.random() < 0.2:
        return replace(make_failed(number, num_steps), trial=trial, levels=found)
    effective = replace(make_effective(trial.config), max_running_requests=draw.choice([None, 4, 48]))
    return Completed(trial=trial, effective=effective, launch_s=1.0, levels=found)


def odd_trial(draw: random.Random, trial: Trial) -> Trial:
    role = draw.choice(ROLES)
    if role == "schedule":
        schedule = Schedule.of((1, 4, trial.config.num_steps), (5, None, 0))
        return replace(trial, role=role, schedule=schedule)
    return replace(trial, role=role, lever="--limit 3" if draw.random() < 0.15 else "")


def odd_level(draw: random.Random, concurrency: int, part: Part, num_steps: int) -> LevelMeasurement:
    level = make_level(
        concurrency,
        draw.uniform(10, 900),
        num_requests=max(draw.choice([3, 6, 20]), concurrency),
        num_steps=num_steps,
        noise=draw.choice([0, 0.3]),
        seed=draw.randint(0, 9),
        part=part,
    )
    records = tuple(
        replace(record, error="reset", output_tokens=None) if draw.random() < 0.1 else record
        for record in level.records
    )
    counters = level.counters if draw.random() < 0.8 else None
    share = draw.choice([None, 0.0, 0.3, 1.5])
    return replace(level, records=records, counters=counters, foreign_cpu_share=share)


@pytest.mark.parametrize("seed", range(12))
def test_an_odd_history_has_a_page_and_keeps_the_schema(seed: int) -> None:
    history = odd_history(seed)
    shortlist(history)
    found = answer(history, lambda _: (), lambda _, schedule: {"embedded": schedule.label})
    assert render_terminal(study_document(found)).startswith("spectune study")
    assert list(schema_faults(json.loads(render_json(found)))) == []
