"""`spectune apply`: the study's winner, put in place on its unit for good, or taken back."""

import argparse
import difflib
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from spectune.cli.interruption import interruptible, undisturbed
from spectune.cli.kept_server import KeptServer, confirm, looked_at, proof_of, running_proof, server_of
from spectune.cli.lending import journal_folder, run_here
from spectune.cli.options import Parser
from spectune.cli.recommended import Wanted, recommended, recommended_schedule
from spectune.cli.service_options import (
    add_terms_arguments,
    add_unit_arguments,
    read_place,
    read_terms,
)
from spectune.cli.stored_study import study_named
from spectune.cli.streams import print_out
from spectune.cli.wiring import answers_of, open_store
from spectune.clock import SystemClock
from spectune.domain.command import MASK
from spectune.engines.adapter import EngineAdapter, Scheduled
from spectune.errors import ConfigError
from spectune.launch.give_back import Prove
from spectune.launch.journal import Journal, last_header
from spectune.launch.persistent import PersistentChange, apply_change, change_back, change_to, credential_path
from spectune.launch.service_session import new_header, open_session
from spectune.launch.systemd_launcher import secrets_of
from spectune.tuning.service_proof import prove_applied


def run_apply(words: Sequence[str]) -> int:
    """Applies a winner or takes it back; returns the exit status."""
    found = _parser().read(words)
    if found.undo and found.schedule:
        raise ConfigError(
            "spectune apply: `--schedule or --undo` must hold, both were given; --undo takes back the last "
            "apply, whatever it put in place."
        )
    store = open_store(found.store or "")
    study = study_named(store, found.study, "spectune apply")
    if found.unit is None:
        read_place(found)  # refuses --ssh and the like without --unit
        _name_unit(found, study)
    terms = read_terms(found)
    assert terms is not None, "a unit is named"
    with looked_at(terms, store.path.with_name(f"{store.path.name}.logs") / "apply.log") as kept:
        if found.undo:
            return _apply(kept, change_back(kept.service), None, study)
        answers = answers_of(store.history(study))
        wanted = recommended_schedule(answers) if found.schedule else recommended(answers)
        started = wanted.started(kept.adapter, kept.unit.command, credential_path(kept.unit))
        change = change_to(kept.service, kept.unit.exec_line_for(started.command), started.file_text)
        return _apply(kept, change, _Goal(wanted=wanted, adapter=_knowing(kept.adapter, started)), study)


def _parser() -> Parser:
    parser = Parser(
        "spectune apply", "Puts a study's recommended setting in place on its systemd unit, for good."
    )
    parser.add_argument("study", metavar="STUDY", help="a study's name, or `last`")
    parser.add_argument(
        "--schedule", action="store_true", help="its schedule of steps by batch size, where it recommends one"
    )
    parser.add_argument("--undo", action="store_true", help="put the drop-in back that was there before")
    parser.add_argument("--yes", action="store_true", help="ask nothing")
    parser.add_argument("--store", metavar="FILE", help="study store (default: the user's data folder)")
    unit = parser.add_argument_group("unit (default: the one the study was tuned on)")
    add_unit_arguments(unit)
    add_terms_arguments(unit)
    return parser


@dataclass(frozen=True, slots=True, kw_only=True)
class _Goal:
    """What is to be in place.

    Attributes:
        wanted: the setting or schedule.
        adapter: the dialect that reads it back. It knows the new schedule's file, so that the server from
            before must not be read with it.
    """

    wanted: Wanted
    adapter: EngineAdapter


def _knowing(adapter: EngineAdapter, started: Scheduled) -> EngineAdapter:
    """The dialect that knows the schedule's file."""
    facts = replace(adapter.facts, schedule_text=started.file_text)
    return adapter.knowing(facts) if started.file_text else adapter


def _apply(kept: KeptServer, change: PersistentChange, goal: _Goal | None, study: str) -> int:
    service = kept.service
    if change.before == change.after:
        print_out(f"{service.described}: nothing to change, {change.path} is already so\n")
        return 0
    print_out(f"{service.described}: {change.path}\n{_diff(kept, change)}")
    kept.check_quiet()
    confirm(f"{service.described} will be restarted with this.", is_confirmed=kept.terms.is_confirmed)
    terms = kept.terms
    header = new_header(
        service,
        kept.unit,
        kept.session_terms("apply", study),
        is_persistent=True,
    )
    run_here(terms.before_stop, "--before-stop")
    try:
        with interruptible():
            told = _change(kept, change, Journal.begin(journal_folder(), header), goal)
    finally:
        with undisturbed():
            run_here(terms.after_restore, "--after-restore")
    print_out(f"{service.described}: {told}\n")
    return 0


def _change(kept: KeptServer, change: PersistentChange, journal: Journal, goal: _Goal | None) -> str:
    clock = SystemClock()
    log = journal_folder() / f"{journal.header.id}.log"
    session = open_session(kept.service, kept.unit, journal, clock)
    try:
        return apply_change(session, change, _proof(kept, goal, log), clock)
    except BaseException:
        with undisturbed():
            told = session.give_back(proof_of(kept.service, kept.adapter, kept.before, log))
            sys.stderr.write(f"spectune: {kept.service.described} is given back: {told}\n")
        raise
    finally:
        journal.release()


def _proof(kept: KeptServer, goal: _Goal | None, log: Path) -> Prove:
    """That the server runs the new setting, or, after an undo, that it runs."""

    def prove() -> str:
        if not kept.before:
            return "applied; it was not running, so nothing was started"
        if goal is None:
            return f"taken back: {running_proof(kept.service, kept.adapter, kept.before, log)()}"
        adapter, wanted = goal.adapter, goal.wanted
        server, command = server_of(kept.service, adapter, log), kept.service.unit().command
        told = prove_applied(adapter, command, server, SystemClock(), wanted.config, schedule=wanted.schedule)
        return f"applied: {told}"

    return prove


def _diff(kept: KeptServer, change: PersistentChange) -> str:
    """The change with secrets masked."""
    texts = [change.before, change.after]
    for secret in secrets_of(kept.unit.command):
        texts = [text.replace(secret, MASK) for text in texts]
    before, after = (text.splitlines(keepends=True) for text in texts)
    lines = difflib.unified_diff(before, after, "before", "after")
    return "".join(lines) + f"(in force now: {_masked(kept, kept.unit.exec_start)})\n"


def _masked(kept: KeptServer, text: str) -> str:
    for secret in secrets_of(kept.unit.command):
        text = text.replace(secret, MASK)
    return text


def _name_unit(found: argparse.Namespace, study: str) -> None:
    """Fills in the unit that the study was tuned on; raises ConfigError."""
    header = last_header(journal_folder(), study)
    if header is None:
        raise ConfigError(
            f"study {study}: `it was tuned on a unit from here` must hold, it was not; name it with --unit."
        )
    if header.keeper == "docker":
        raise ConfigError(
            f"study {study}: `apply works on units` must hold, it was tuned on container {header.unit}; put "
            "the recommended flags into your compose file or docker run command."
        )
    found.unit, found.ssh = header.unit, header.ssh or None
    found.sudo, found.user = header.use_sudo, header.is_user
