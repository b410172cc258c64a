"""A container that somebody else runs: looked at, put aside under a lease, given back and proven.

EXPERIMENTAL. Written against the documented fields of docker; never run against a real daemon.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from spectune.cli.kept_server import check_serves_nobody, duration_text, session_terms_of
from spectune.cli.lending import GIVEN_BACK_LOG, Loan, lent
from spectune.cli.service_options import ContainerPlace, ServiceTerms, host_at
from spectune.cli.wiring import PreparedStudy, recognise
from spectune.clock import SystemClock
from spectune.domain.command import Command
from spectune.engines.adapter import EngineAdapter
from spectune.errors import ConfigError
from spectune.launch.container_text import Container, masked_summary
from spectune.launch.container_words import obstacle
from spectune.launch.docker_launcher import ContainerLog, DockerServer
from spectune.launch.docker_service import DockerService, compose_container
from spectune.launch.docker_session import new_docker_header, open_docker_session
from spectune.launch.launcher import Launcher
from spectune.launch.systemd_launcher import secrets_of
from spectune.report.plan_document import StudyPlan
from spectune.tuning.service_proof import look, prove_same, write_down


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptContainer:
    """A container as it was found.

    Attributes:
        terms: what may be done with it.
        place: which it is.
        service: the container on its host.
        container: its definition.
        adapter: its engine's dialect.
        before: what it runs, as written down; "" when it does not run.
    """

    terms: ServiceTerms
    place: ContainerPlace
    service: DockerService
    container: Container
    adapter: EngineAdapter
    before: str

    @property
    def command(self) -> Command:
        """What it runs."""
        return self.container.command

    @property
    def environment(self) -> dict[str, str]:
        """The variables it is started with."""
        return dict(self.container.environment)

    def fit(self, prepared: PreparedStudy) -> PreparedStudy:
        """The study on this container: its own command, with what every arm needs set equally."""
        service = self.service.described if prepared.resumed is None else prepared.study.service
        study = replace(prepared.study, command=self.command, service=service)
        return replace(prepared, study=study, command=replace(self.command, argv=prepared.command.argv))

    def notes(self, plan: StudyPlan) -> tuple[str, ...]:
        """What the user should know before it begins."""
        state = "running" if self.container.is_running else "not running"
        downtime = (
            f"expected downtime for its users: {duration_text(plan.expected_s)}, with up to "
            f"{plan.max_launches} restarts and one more to give it back; the container itself is stopped and "
            f"waits as {self.service.spare_name}, settings are tried in copies of it"
        )
        return (
            f"{self.service.described}: {state}, {masked_summary(self.container)}",
            "EXPERIMENTAL: containers were never tried against a real docker daemon",
            downtime,
        )

    def check_quiet(self) -> None:
        """Raises ConfigError when it serves somebody, or when that cannot be told."""
        if self.before and not self.terms.allows_live:
            server = container_server(self.service, self.adapter, Path(os.devnull))
            check_serves_nobody(self.service, server, window_s=self.terms.quiet_s)

    def borrowed(
        self, study_id: str, log_folder: Path, max_downtime_s: float | None
    ) -> AbstractContextManager[Launcher]:
        """A launcher in its place; whatever happens inside, the container is given back, which is proven."""
        terms = session_terms_of(self.terms, self.adapter, self.before, "tune", study_id)
        loan = Loan(
            described=self.service.described,
            header=new_docker_header(self.service, self.container, terms),
            begin=lambda journal: open_docker_session(self.service, self.container, journal, SystemClock()),
            prove=container_proof(self.service, self.adapter, self.before, log_folder / GIVEN_BACK_LOG),
        )
        return lent(loan, self.terms, log_folder, max_downtime_s)


@contextmanager
def looked_at_container(terms: ServiceTerms, log: Path) -> Iterator[KeptContainer]:
    """The container as it is, its host in reach. Raises ConfigError or LaunchError."""
    place = terms.place
    assert isinstance(place, ContainerPlace), "units are looked at elsewhere"
    host = host_at(place.ssh, use_sudo=place.use_sudo)
    try:
        DockerService(host, place.name).facts()
        name = compose_container(host, place.compose_file, place.name) if place.compose_file else place.name
        service = DockerService(host, name)
        container = service.container()
        reason = obstacle(container)
        if reason:
            raise ConfigError(
                f"{service.described}: `it can be put aside and given back` must hold: {reason}"
            )
        adapter = recognise(container.command)
        before = ""
        if container.is_running:
            server = container_server(service, adapter, log)
            if not terms.allows_live:
                check_serves_nobody(service, server, window_s=terms.quiet_s)
            before = write_down(look(adapter, container.command, server, SystemClock()))
        yield KeptContainer(
            terms=terms, place=place, service=service, container=container, adapter=adapter, before=before
        )
    finally:
        host.close()


def container_server(service: DockerService, adapter: EngineAdapter, log: Path) -> DockerServer:
    """The container's server as it runs now, to be looked at only."""
    container = service.container()
    endpoint = service.host.reach(container.reached_at(adapter.endpoint(container.command)))
    copied = ContainerLog(service, log, secrets_of(container.command))
    return DockerServer(service, endpoint, copied, SystemClock())


def container_proof(
    service: DockerService, adapter: EngineAdapter, before: str, log: Path
) -> Callable[[], str]:
    """Shows that the server runs as before."""

    def prove() -> str:
        if not before:
            return "not running, as before"
        command = service.container().command
        server = container_server(service, adapter, log)
        return prove_same(adapter, command, server, SystemClock(), before)

    return prove
