"""A server that somebody else runs: looked at first, borrowed under a lease, given back and proven."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from spectune.cli.lending import GIVEN_BACK_LOG, Loan, lent
from spectune.cli.service_options import ServiceTerms, UnitPlace, service_at
from spectune.cli.wiring import PreparedStudy, recognise
from spectune.clock import SystemClock
from spectune.domain.command import Command
from spectune.engines.adapter import EngineAdapter
from spectune.errors import ConfigError
from spectune.launch.docker_service import DockerService
from spectune.launch.journal import Kind
from spectune.launch.launcher import Launcher, RunningServer
from spectune.launch.service_session import SessionTerms, new_header, open_session
from spectune.launch.systemd_launcher import SystemdServer, UnitLog, secrets_of
from spectune.launch.systemd_service import SystemdService
from spectune.launch.systemd_unit import Unit
from spectune.report import numbers
from spectune.report.plan_document import StudyPlan
from spectune.tuning.bench import ask
from spectune.tuning.live_traffic import busiest
from spectune.tuning.service_proof import describe, look, prove_same, write_down


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptServer:
    """A unit as it was found.

    Attributes:
        terms: what may be done with it.
        place: which it is.
        service: the unit on its host.
        unit: its definition.
        adapter: its engine's dialect.
        before: what it runs, as written down; "" when it does not run.
    """

    terms: ServiceTerms
    place: UnitPlace
    service: SystemdService
    unit: Unit
    adapter: EngineAdapter
    before: str

    @property
    def command(self) -> Command:
        """What it runs."""
        return self.unit.command

    @property
    def environment(self) -> dict[str, str]:
        """The variables it is started with."""
        return dict(self.unit.environment)

    def fit(self, prepared: PreparedStudy) -> PreparedStudy:
        """The study on this unit: its own command, with what every arm needs set equally."""
        service = f"unit {self.service.described}" if prepared.resumed is None else prepared.study.service
        study = replace(prepared.study, command=self.command, service=service)
        return replace(prepared, study=study, command=replace(self.command, argv=prepared.command.argv))

    def notes(self, plan: StudyPlan) -> tuple[str, ...]:
        """What the user should know before it begins."""
        stopped = self.service.active_dependents(self.unit)
        drop_ins = ", ".join(self.unit.drop_ins) or "none"
        notes = [f"unit {self.service.described}: {self.unit.active_state}, drop-ins: {drop_ins}"]
        notes.append(
            f"expected downtime for its users: {duration_text(plan.expected_s)}, with up to "
            f"{plan.max_launches} restarts and one more to give it back; settings are tried through a "
            "runtime drop-in"
        )
        if self.unit.environment:
            notes.append(f"environment (values masked): {self.unit.described_environment}")
        if stopped:
            notes.append(f"stopped and started with it: {', '.join(stopped)}")
        return tuple(notes)

    def check_quiet(self) -> None:
        """Raises ConfigError when it serves somebody, or when that cannot be told."""
        if self.before and not self.terms.allows_live:
            server = server_of(self.service, self.adapter, Path(os.devnull))
            check_serves_nobody(self.service, server, window_s=self.terms.quiet_s)

    def session_terms(self, kind: Kind, study: str) -> SessionTerms:
        """What the journal notes of this server for a session of this kind."""
        return session_terms_of(self.terms, self.adapter, self.before, kind, study)

    def borrowed(
        self, study_id: str, log_folder: Path, max_downtime_s: float | None
    ) -> AbstractContextManager[Launcher]:
        """A launcher on the unit; whatever happens inside, the unit is given back and that is proven."""
        loan = Loan(
            described=self.service.described,
            header=new_header(self.service, self.unit, self.session_terms("tune", study_id)),
            begin=lambda journal: open_session(self.service, self.unit, journal, SystemClock()),
            prove=proof_of(self.service, self.adapter, self.before, log_folder / GIVEN_BACK_LOG),
        )
        return lent(loan, self.terms, log_folder, max_downtime_s)


@contextmanager
def looked_at(terms: ServiceTerms, log: Path) -> Iterator[KeptServer]:
    """The unit as it is, its host in reach; its log goes to `log`. Raises ConfigError or LaunchError."""
    place = terms.place
    assert isinstance(place, UnitPlace), "containers are looked at elsewhere"
    service = service_at(place)
    try:
        service.facts()
        unit = service.unit()
        adapter = recognise(unit.command)
        before = ""
        if unit.active_state == "active":
            server = server_of(service, adapter, log)
            if not terms.allows_live:
                check_serves_nobody(service, server, window_s=terms.quiet_s)
            before = write_down(look(adapter, unit.command, server, SystemClock()))
        yield KeptServer(terms=terms, place=place, service=service, unit=unit, adapter=adapter, before=before)
    finally:
        service.host.close()


def session_terms_of(
    terms: ServiceTerms, adapter: EngineAdapter, before: str, kind: Kind, study: str
) -> SessionTerms:
    """What the journal notes of a server that runs `before`."""
    return SessionTerms(
        kind=kind,
        study=study,
        ssh=terms.place.ssh,
        use_sudo=terms.place.use_sudo,
        engine=adapter.name,
        before=before,
        orphan_timeout_s=terms.orphan_timeout_s,
        after_restore=terms.after_restore,
    )


def check_serves_nobody(
    service: SystemdService | DockerService, server: RunningServer, *, window_s: float
) -> None:
    """Raises ConfigError when it has requests during the window, or when that cannot be told."""
    most = busiest(partial(ask, server), SystemClock(), window_s=window_s)
    if most is None:
        raise ConfigError(
            f"{service.described}: `its metrics say whether it serves somebody` must hold, they do not; give "
            "--allow-live if nobody needs it now."
        )
    if most:
        raise ConfigError(
            f"{service.described}: `it serves nobody` must hold, it has {most} requests; drain it first, or "
            "give --allow-live."
        )


def server_of(service: SystemdService, adapter: EngineAdapter, log: Path) -> SystemdServer:
    """The unit's server as it runs now, to be looked at only."""
    command = service.unit().command
    endpoint = service.host.reach(adapter.endpoint(command))
    return SystemdServer(service, endpoint, UnitLog(service, log, (), secrets_of(command)), SystemClock())


def proof_of(service: SystemdService, adapter: EngineAdapter, before: str, log: Path) -> Callable[[], str]:
    """Shows that the server runs as before."""

    def prove() -> str:
        if not before:
            return "not running, as before"
        command = service.unit().command
        return prove_same(adapter, command, server_of(service, adapter, log), SystemClock(), before)

    return prove


def running_proof(
    service: SystemdService, adapter: EngineAdapter, before: str, log: Path
) -> Callable[[], str]:
    """Shows that the server runs, whatever it runs."""

    def prove() -> str:
        if not before:
            return "not running, as before"
        now = look(adapter, service.unit().command, server_of(service, adapter, log), SystemClock())
        return f"a real generation, and in force: {describe(now)}"

    return prove


def confirm(question: str, *, is_confirmed: bool) -> None:
    """Asks on the terminal; raises ConfigError when the answer is no or nobody can be asked."""
    if is_confirmed:
        return
    if not sys.stdin.isatty():
        raise ConfigError(f"{question} `--yes` must be given where nobody can be asked; nothing was changed.")
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise ConfigError("`a yes` must be given; nothing was changed.")


def duration_text(seconds: float | None) -> str:
    """How long a study may take, in words."""
    return "without a limit" if seconds is None else f"about {numbers.duration(seconds)}"
