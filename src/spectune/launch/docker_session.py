"""A session on one container: from the lease to the proof that the very same one runs. EXPERIMENTAL."""

import secrets
import time
from contextlib import suppress
from pathlib import Path

from spectune.clock import Clock
from spectune.errors import ConfigError, SpectuneError
from spectune.launch.container_text import Container
from spectune.launch.container_words import obstacle
from spectune.launch.docker_launcher import DRAIN_S, DockerLauncher
from spectune.launch.docker_service import DockerService, container_digest
from spectune.launch.give_back import Prove
from spectune.launch.journal import Journal, JournalHeader
from spectune.launch.service_session import SessionTerms, end_session, terms_of
from spectune.launch.unit_lease import UnitLease, new_token

_START_S = 600.0


class DockerSession:
    """A container whose lease is held, with a watchdog on its host."""

    def __init__(self, service: DockerService, container: Container, lease: UnitLease, clock: Clock) -> None:
        """Use `open_docker_session`."""
        self.service, self.container, self.lease, self._clock = service, container, lease, clock

    def launcher(self, log_folder: Path) -> DockerLauncher:
        """Tries settings in its place."""
        return DockerLauncher(self.service, self.container, self.lease, log_folder, self._clock)

    def give_back(self, prove: Prove) -> str:
        """Ends the session; see `give_back.give_back`."""
        return end_session(self.lease, self.service, prove, self._clock, DRAIN_S + _START_S)


def new_docker_header(service: DockerService, container: Container, terms: SessionTerms) -> JournalHeader:
    """What the journal begins with; raises ConfigError when the container cannot be put aside."""
    reason = obstacle(container)
    if reason:
        raise ConfigError(f"{service.described}: `it can be put aside and given back` must hold: {reason}")
    facts, token = service.facts(), new_token()
    if service.has(service.spare_name):
        raise ConfigError(
            f"{service.described}: `no {service.spare_name} is there` must hold, one is: an interrupted "
            "spectune left it; run `spectune restore` where that one ran."
        )
    return JournalHeader(
        id=f"{time.strftime('%Y%m%d-%H%M%S')}-{container.name}-{secrets.token_hex(2)}",
        kind=terms.kind,
        study=terms.study,
        unit=container.name,
        ssh=terms.ssh,
        use_sudo=terms.use_sudo,
        is_user=False,
        folder=service.folder(facts),
        kept="",
        drop_in=service.spare_name,
        dependents=(),
        orphan_timeout_s=terms.orphan_timeout_s,
        token=token,
        boot_id=facts.boot_id,
        former="active" if container.is_running else "inactive",
        digest=container_digest(container, token),
        before=terms.before,
        engine=terms.engine,
        after_restore=terms.after_restore,
        keeper="docker",
    )


def open_docker_session(
    service: DockerService, container: Container, journal: Journal, clock: Clock
) -> DockerSession:
    """Takes the lease and sets the watchdog; raises ConfigError when another spectune has the container."""
    lease = UnitLease(service.host, journal, terms_of(journal.header), clock)
    session = DockerSession(service, container, lease, clock)
    try:
        lease.take()
    except ConfigError:
        journal.close("nothing was changed")
        raise
    except BaseException:
        with suppress(SpectuneError):  # out of reach: the watchdog or `spectune restore` does it
            session.give_back(lambda: "")
        raise
    lease.keep_alive()
    return session
