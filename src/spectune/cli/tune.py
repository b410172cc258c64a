"""`spectune tune`: finds the best setting; the study is kept whatever happens."""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from spectune.analysis.answers import StudyAnswers
from spectune.cli.engine_facts import check_program
from spectune.cli.interruption import Interrupted, TimeOver, interruptible
from spectune.cli.kept_container import KeptContainer, looked_at_container
from spectune.cli.kept_server import KeptServer, confirm, looked_at
from spectune.cli.lending import downtime_left_s
from spectune.cli.output import STDOUT, Output, store_flag
from spectune.cli.progress import Pace, StudyProgress
from spectune.cli.service_options import ContainerPlace
from spectune.cli.streams import print_out
from spectune.cli.tune_options import TuneOptions, parse_tune_options
from spectune.cli.wiring import (
    Keeping,
    PreparedStudy,
    answers_of,
    begin_study,
    log_folder,
    open_store,
    plan_study,
    resume_study,
    run_study,
)
from spectune.clock import SystemClock
from spectune.domain.study import Study, StudyHistory
from spectune.engines.levers import changing_flags
from spectune.launch.memory import reader_of
from spectune.launch.visible_gpus import visible_gpus
from spectune.report import numbers
from spectune.report.plan_document import StudyPlan, plan_document, render_plan_json
from spectune.report.terminal import render_terminal
from spectune.storage.sqlite_store import SqliteStore

Kept = KeptServer | KeptContainer
"""What is tuned in place of a serve command."""


def run_tune(words: Sequence[str]) -> int:
    """Runs a study and prints its answers; returns the exit status."""
    options = parse_tune_options(words)
    store = open_store(options.store_file)
    if options.service is None:
        return _tune(options, store, None)
    log = log_folder(store, "looks") / "before.log"
    if isinstance(options.service.place, ContainerPlace):
        with looked_at_container(options.service, log) as container:
            return _tune(replace(options, command=container.command.argv), store, container)
    with looked_at(options.service, log) as kept:
        return _tune(replace(options, command=kept.command.argv), store, kept)


def _tune(options: TuneOptions, store: SqliteStore, kept: Kept | None) -> int:
    prepared = resume_study(options, store) if options.resume else begin_study(options, _started_with(kept))
    prepared = prepared if kept is None else kept.fit(prepared)
    if kept is not None:
        _downtime_left_s(prepared)
    plan = plan_study(prepared)
    plan = replace(plan, notes=(*plan.notes, *_lever_notes(prepared.study)))
    plan = plan if kept is None else replace(plan, notes=(*plan.notes, *kept.notes(plan)))
    if options.is_dry_run:
        is_json = options.json_file == STDOUT
        print_out(render_plan_json(plan) if is_json else render_terminal(plan_document(plan)))
        return 0
    output = Output(
        json_file=options.json_file, report_file=options.report_file, store_file=options.store_file
    )
    taken = {"--store": store.path, "--workload": Path(prepared.study.workload.name)}
    output.check(taken | ({"--mix": Path(options.mix)} if options.mix else {}))
    store.check_writable()
    if kept is None:
        check_program(prepared.command)
    _announce(prepared, plan, store)
    if kept is not None:
        kept.check_quiet()
        confirm(
            f"{kept.service.described} will be stopped and started.", is_confirmed=kept.terms.is_confirmed
        )
    history = _run(prepared, plan, store, options.store_file, kept)
    answers = answers_of(history)
    output.write(answers)
    return _exit_status(answers, store)


def _run(
    prepared: PreparedStudy,
    plan: StudyPlan,
    store: SqliteStore,
    store_file: str,
    kept: Kept | None,
) -> StudyHistory:
    max_trials = max(plan.max_launches, 1)
    guess_s = (plan.expected_s or 0.0) / max_trials or 120.0
    done = 0 if prepared.resumed is None else len(prepared.resumed.outcomes)
    pace = Pace(
        max_trials=max(max_trials - done, 1),
        guess_s=guess_s,
        seconds=[],
        fewest_trials=None if plan.expected_s is not None else max(plan.fewest_launches - done, 0),
    )
    where = store_flag(store_file)
    unit = "" if kept is None else f" {kept.place.flags}"
    go_on = (
        f"everything measured is kept; go on with: spectune tune --resume {prepared.study.id}{unit}{where}\n"
    )
    try:
        with (
            interruptible(),
            _keeping(prepared, store, kept) as keeping,
            StudyProgress(SystemClock(), pace) as progress,
        ):
            return run_study(prepared, store, progress, keeping)
    except Interrupted as interrupted:
        sys.stderr.write(f"spectune: {interrupted.signal_name}: the server is stopped and {go_on}")
        raise
    except TimeOver:
        sys.stderr.write(f"spectune: the agreed downtime is over; {go_on}")
        return store.history(prepared.study.id)


def _started_with(kept: Kept | None) -> Mapping[str, str] | None:
    """The environment that the servers get; None where they run on another machine."""
    if kept is None:
        return os.environ
    return kept.environment if kept.service.host.is_local else None


@contextmanager
def _keeping(prepared: PreparedStudy, store: SqliteStore, kept: Kept | None) -> Iterator[Keeping | None]:
    """How the servers are kept: as processes of our own, or as the unit they are."""
    if kept is None:
        yield None
        return
    logs = log_folder(store, prepared.study.id)
    with kept.borrowed(prepared.study.id, logs, _downtime_left_s(prepared)) as launcher:
        host = kept.service.host
        memory = reader_of(host, visible_gpus(prepared.command, kept.environment))
        yield Keeping(launcher=launcher, is_local=host.is_local, is_shared=True, read_memory=memory)


def _downtime_left_s(prepared: PreparedStudy) -> float | None:
    """Of the study's own limit: on --resume nobody gives it again."""
    return downtime_left_s(prepared.study.search.max_downtime_s, prepared.resumed)


def _lever_notes(study: Study) -> tuple[str, ...]:
    """Of levers that change more than what fits."""
    check = (
        "the lossless check will show what that does to the answers"
        if study.proof.is_lossless
        else "the lossless check, which would show what that does to the answers, is not asked for"
    )
    return tuple(
        f"--lever {lever!r} changes the model's numbers ({', '.join(flags)}): {check}"
        for lever in study.space.levers
        if (flags := changing_flags(study.engine, lever))
    )


def _announce(prepared: PreparedStudy, plan: StudyPlan, store: SqliteStore) -> None:
    study = prepared.study
    verb, done = "begins", ""
    if prepared.resumed is not None:
        verb, done = "goes on", f" in all, {len(prepared.resumed.outcomes)} of them done before,"
    left = "" if plan.expected_s is None else f", {numbers.duration(plan.expected_s)} at most"
    sys.stderr.write(
        f"study {study.id} {verb}: {plan.launches_text}{done} at {numbers.levels(study.concurrency)}{left}; "
        f"kept in {store.path}\n"
    )
    for note in plan.notes:
        sys.stderr.write(f"note: {note}\n")
    sys.stderr.flush()


def _exit_status(answers: StudyAnswers, store: SqliteStore) -> int:
    """0 when there is something to recommend."""
    if answers.recommendation is not None:
        return 0
    sys.stderr.write(
        f"spectune: study {answers.study.id}: `at least one setting is measured at every level` must hold, "
        f"none was: {_first_reason(answers)} Server logs: {log_folder(store, answers.study.id)}.\n"
    )
    return 1


def _first_reason(answers: StudyAnswers) -> str:
    reasons = [trial for trial in answers.trials if trial.reason]
    if not reasons:
        return "no trial ended."
    return f"{reasons[0].trial.config.label} {reasons[0].outcome}: {reasons[0].reason}"
