"""Studies and measurements of known truth: what the analysis makes of them can be worked out by hand."""

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import cast

from spectune.domain.command import Command
from spectune.domain.environment import Environment
from spectune.domain.measurement import LevelMeasurement, RequestRecord, SpecCounters
from spectune.domain.spec_config import SpecConfig
from spectune.domain.study import SearchSpace, Study, StudyHistory
from spectune.domain.trial import Completed, EffectiveSettings, Failed, Role, Trial, TrialId, TrialOutcome
from spectune.domain.workload import LoadPlan, Part, PlannedRequest, WorkloadSpec

SpeedTable = Mapping[int, Mapping[int, float]]
"""Tokens/s by num_steps and concurrency."""


def make_study(
    *,
    study_id: str = "study-1",
    argv: tuple[str, ...] = ("spectune", "serve", "--port", "30000"),
    num_steps: tuple[int, ...] = tuple(range(9)),
    concurrency: tuple[int, ...] = (1, 8),
    is_exhaustive: bool = False,
) -> Study:
    """A study of the embedded engine."""
    return Study(
        id=study_id,
        created_unix_s=1_790_000_000.0,
        engine="embedded",
        command=Command(argv=argv),
        space=SearchSpace(method="eagle", num_steps=num_steps, is_exhaustive=is_exhaustive),
        workload=WorkloadSpec(
            name="python-code", kind="builtin", digest="0" * 64, num_prompts=500, temperature=0.0, seed=0
        ),
        concurrency=concurrency,
        budget_s=200.0,
        environment=Environment(
            spectune_version="0.1.0",
            python="3.11.7",
            platform="Linux 6.1 x86_64",
            cpu_model="Test CPU",
            num_cpus=2,
            memory_bytes=8 * 2**30,
            libraries=(("numpy", "2.0.0"),),
        ),
    )


def make_trial(number: int, num_steps: int) -> Trial:
    """A trial of the eagle chain of `num_steps`."""
    role: Role = "baseline" if num_steps == 0 else "setting"
    return Trial(id=TrialId(number), config=SpecConfig.chain("eagle", num_steps), role=role)


def make_effective(config: SpecConfig) -> EffectiveSettings:
    """What a server of that setting would say."""
    return EffectiveSettings(
        config=config,
        max_running_requests=48 - config.num_steps,
        max_total_num_tokens=40_000,
        engine_version="0.1.0",
        model="tiny-code",
    )


def make_level(  # noqa: PLR0913  (what tests vary)
    concurrency: int,
    output_tps: float,
    *,
    num_requests: int = 60,
    num_steps: int = 0,
    noise: float = 0.0,
    seed: int = 0,
    attempt: int = 0,
    part: Part = "search",
) -> LevelMeasurement:
    """A closed-loop level that ran at `output_tps`.

    Args:
        concurrency: slots, all busy from the start.
        output_tps: tokens/s of all slots together, before noise.
        num_requests: counted requests; lengths differ, and are the same for every setting.
        num_steps: decides the counters; half of the draft tokens are accepted.
        noise: standard deviation of a request's log duration.
        seed: of the noise.
        attempt: as in LevelMeasurement.
        part: as in LevelMeasurement.
    """
    rng = random.Random(seed)  # noqa: S311
    free_at_s = [0.0] * concurrency
    records = []
    for index in range(num_requests):
        tokens = 40 + (index * 17) % 40
        duration_s = concurrency * tokens / output_tps * (1 + rng.gauss(0, noise))
        slot = min(range(concurrency), key=free_at_s.__getitem__)
        records.append(make_record(index, sent_at_s=free_at_s[slot], duration_s=duration_s, tokens=tokens))
        free_at_s[slot] += duration_s
    return LevelMeasurement(
        concurrency=concurrency,
        attempt=attempt,
        records=tuple(records),
        counters=_counters(sum(record.output_tokens or 0 for record in records), num_requests, num_steps),
        foreign_cpu_share=0.01,
        wall_s=max(free_at_s),
        started_unix_s=1_790_000_100.0 + concurrency,
        part=part,
    )


def make_record(index: int, *, sent_at_s: float, duration_s: float, tokens: int) -> RequestRecord:
    """A request whose tokens came evenly."""
    times = tuple(sent_at_s + duration_s * (number + 1) / tokens for number in range(tokens))
    return RequestRecord(
        index=index,
        due_at_s=sent_at_s,
        sent_at_s=sent_at_s,
        chunk_times_s=times,
        chunk_tokens=tuple(range(1, tokens + 1)),
        ended_at_s=times[-1],
        prompt_tokens=100,
        output_tokens=tokens,
        finish_reason="length",
        output_text="x" * tokens,
    )


def make_completed(number: int, num_steps: int, tps_by_level: Mapping[int, float]) -> Completed:
    """A trial that ran at these speeds."""
    trial = make_trial(number, num_steps)
    return Completed(
        trial=trial,
        effective=make_effective(trial.config),
        launch_s=1.5,
        levels=tuple(
            make_level(concurrency, tps, num_steps=num_steps) for concurrency, tps in tps_by_level.items()
        ),
    )


def make_confirmed(
    number: int, num_steps: int, fresh: Mapping[int, float], anchor: Mapping[int, float]
) -> Completed:
    """A later launch that ran at these speeds on fresh prompts, and on the search's as its anchor."""
    trial = replace(make_trial(number, num_steps), role="confirm")
    cells = [(level, tps, "fresh") for level, tps in fresh.items()]
    cells += [(level, tps, "search") for level, tps in anchor.items()]
    levels = (make_level(c, tps, num_steps=num_steps, part=cast("Part", part)) for c, tps, part in cells)
    started_s = 1_790_010_000.0 + 100 * number
    return Completed(
        trial=trial,
        effective=make_effective(trial.config),
        launch_s=1.5,
        levels=tuple(replace(level, started_unix_s=started_s) for level in levels),
    )


def make_failed(number: int, num_steps: int) -> Failed:
    """A trial whose server ran out of memory at start."""
    return Failed(
        trial=make_trial(number, num_steps),
        kind="out_of_memory",
        detail="the server ran out of memory; lower --max-running-requests.",
        log_tail="MemoryError: cannot allocate the KV cache",
        effective=None,
        launch_s=None,
        levels=(),
    )


def make_history(study: Study, outcomes: tuple[TrialOutcome, ...], *, finished: str = "done") -> StudyHistory:
    """A history with these outcomes."""
    return StudyHistory(
        study=study,
        plans=(),
        outcomes=outcomes,
        finished=finished,
        wall_s=123.4,
        launches=len(outcomes),
    )


def history_of(speeds: SpeedTable, **study_options: tuple[int, ...]) -> StudyHistory:
    """A finished study that measured this table, num_steps by num_steps."""
    levels = tuple(next(iter(speeds.values())))
    study = make_study(concurrency=levels, **study_options)  # type: ignore[arg-type]
    outcomes = tuple(
        make_completed(number, k, by_level) for number, (k, by_level) in enumerate(speeds.items(), 1)
    )
    return make_history(study, outcomes)


def make_plan(concurrency: int, num_requests: int = 60) -> LoadPlan:
    """A load plan whose bodies differ."""
    requests = tuple(
        PlannedRequest(
            index=index,
            path="/v1/completions",
            body=f'{{"prompt": "def f{index}", "max_tokens": 8}}',
            max_tokens=8,
        )
        for index in range(max(num_requests, concurrency))
    )
    return LoadPlan(concurrency=concurrency, warmup=requests[:1], requests=requests)


def _counters(output_tokens: int, num_requests: int, num_steps: int) -> SpecCounters:
    decoded = output_tokens - num_requests
    if num_steps == 0:
        return SpecCounters(verify_steps=0, undrafted_steps=decoded, drafted_tokens=0, accepted_tokens=0)
    verify_steps = round(decoded / (1 + num_steps / 2))
    return SpecCounters(
        verify_steps=verify_steps,
        undrafted_steps=0,
        drafted_tokens=verify_steps * num_steps,
        accepted_tokens=decoded - verify_steps,
    )
