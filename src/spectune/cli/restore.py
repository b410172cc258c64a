"""`spectune restore`: finishes what an interrupted session left on a service, and proves that it is back."""

import argparse
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from spectune.cli.interruption import undisturbed
from spectune.cli.kept_container import container_proof
from spectune.cli.kept_server import proof_of, running_proof
from spectune.cli.lending import journal_folder, run_here
from spectune.cli.options import Parser
from spectune.cli.service_options import (
    ContainerPlace,
    add_container_arguments,
    add_unit_arguments,
    host_at,
    read_container_place,
    read_place,
)
from spectune.cli.streams import print_out
from spectune.cli.wiring import adapter_of
from spectune.clock import SystemClock
from spectune.errors import ConfigError, SpectuneError
from spectune.launch.adoption import adopt
from spectune.launch.docker_service import DockerService
from spectune.launch.foreign_header import printable
from spectune.launch.give_back import AS_APPLIED, AS_BEFORE
from spectune.launch.journal import Journal, JournalHeader, read_header, unfinished
from spectune.launch.persistent import is_committed
from spectune.launch.service_session import finish_session, service_of
from spectune.launch.systemd_service import SystemdService


def run_restore(words: Sequence[str]) -> int:
    """Finishes every unfinished journal; returns the exit status."""
    found = _parser().read(words)
    paths = _paths(found)
    if not paths:
        print_out("nothing to restore: every session was finished\n")
        return 0
    if found.list:
        for path in paths:
            print_out(f"{_describe(read_header(path))}\n")
        return 0
    status = 0
    for path in paths:
        try:
            with undisturbed():
                told = _restore(path)
        except SpectuneError as error:
            sys.stderr.write(f"spectune: {error}\n")
            status = 1
        else:
            print_out(f"{told}\n")
    return status


def _parser() -> Parser:
    parser = Parser(
        "spectune restore",
        "Gives back every service that an interrupted spectune left changed, and proves that it is back.",
    )
    parser.add_argument("--list", action="store_true", help="only say what is unfinished")
    place = parser.add_argument_group("a server whose tuner ran on another machine that is gone")
    add_unit_arguments(place)
    add_container_arguments(place)
    return parser


def _paths(found: argparse.Namespace) -> tuple[Path, ...]:
    """The unfinished journals here, or that of the server named, from its copy on the server's host."""
    place = read_container_place(found) or read_place(found)
    if place is None:
        return unfinished(journal_folder())
    host = host_at(place.ssh, use_sudo=place.use_sudo)
    try:
        service: SystemdService | DockerService
        if isinstance(place, ContainerPlace):
            if place.compose_file:
                raise ConfigError("--compose: `the container's own name` must be given here; leave it out.")
            service = DockerService(host, place.name)
        else:
            service = SystemdService(host, place.name, is_user=place.is_user)
        adopted = adopt(service, journal_folder(), ssh=place.ssh, use_sudo=place.use_sudo)
    finally:
        host.close()
    if adopted.dropped:
        sys.stderr.write(dropped_text(adopted.dropped))
    return (adopted.path,)


def dropped_text(words: tuple[str, ...]) -> str:
    """What is said of a command that another machine would have run here."""
    return (
        "spectune: --after-restore of that session is not run here; run it yourself if you want to: "
        f"{printable(shlex.join(words))}\n"
    )


def _restore(path: Path) -> str:
    journal = Journal.reopen(path)
    if journal is None:
        return f"{path.name}: finished meanwhile"
    header = journal.header
    try:
        host = host_at(header.ssh, use_sudo=header.use_sudo)
    except SpectuneError:
        journal.release()
        raise
    try:
        service = service_of(host, header)
        log = journal_folder() / f"{header.id}.log"
        adapter, outcome = adapter_of(header.engine), AS_BEFORE
        if isinstance(service, DockerService):
            proof = container_proof(service, adapter, header.before, log)
        elif is_committed(host, header):
            outcome, proof = AS_APPLIED, running_proof(service, adapter, header.before, log)
        else:
            proof = proof_of(service, adapter, header.before, log)
        told = finish_session(host, journal, proof, SystemClock(), outcome=outcome)
    finally:
        journal.release()
        host.close()
    run_here(header.after_restore, "--after-restore")
    what = "is given back" if outcome == AS_BEFORE else "keeps what was applied"
    return f"{service.described} {what}: {told}"


def _describe(header: JournalHeader) -> str:
    where = f"ssh {header.ssh}" if header.ssh else "this machine"
    stamp = time.strptime(header.id[:15], "%Y%m%d-%H%M%S")
    began = time.strftime("%Y-%m-%d %H:%M", stamp)
    return (
        f"{header.unit} on {where}: {header.kind} of study {header.study}, begun {began}, was {header.former}"
    )
