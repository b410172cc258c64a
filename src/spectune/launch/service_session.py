"""A session on one unit: from the lease to the proof that the service is back. Also finished by `restore`."""

import secrets
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from spectune.clock import Clock
from spectune.errors import ConfigError, SpectuneError
from spectune.launch.docker_service import DockerService
from spectune.launch.give_back import AS_BEFORE, KeptService, Prove, give_back
from spectune.launch.host import Host
from spectune.launch.journal import Journal, JournalHeader, Kind
from spectune.launch.systemd_launcher import SystemdLauncher, stop_timeout_s
from spectune.launch.systemd_service import TRIAL_DROP_IN, SystemdService
from spectune.launch.systemd_unit import Unit, unit_digest
from spectune.launch.unit_lease import LeaseTerms, UnitLease, new_token
from spectune.launch.unit_name import UnitName

_STOP_S, _START_S = 120.0, 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionTerms:
    """What a session is about, beside the unit.

    Attributes:
        kind: what is done.
        study: for which study.
        ssh: destination, "" for this machine.
        use_sudo: whether commands go through sudo.
        engine: the dialect's name.
        before: what the server runs now, in the words of whoever will prove it; "" when it does not run.
        orphan_timeout_s: silence after which the watchdog gives the service back.
        after_restore: command to run at the very end.
    """

    kind: Kind
    study: str
    ssh: str
    use_sudo: bool
    engine: str
    before: str
    orphan_timeout_s: float
    after_restore: tuple[str, ...] = ()


class ServiceSession:
    """A unit whose lease is held, with a watchdog on its host."""

    def __init__(self, service: SystemdService, unit: Unit, lease: UnitLease, clock: Clock) -> None:
        """Use `open_session`."""
        self.service, self.unit, self.lease, self._clock = service, unit, lease, clock

    def launcher(self, log_folder: Path) -> SystemdLauncher:
        """Tries settings on the unit."""
        return SystemdLauncher(self.service, self.unit, self.lease, log_folder, self._clock)

    def give_back(self, prove: Prove) -> str:
        """Ends the session; see `give_back.give_back`."""
        deadline_s = stop_timeout_s(self.unit) + _START_S
        return end_session(self.lease, self.service, prove, self._clock, deadline_s)


def new_header(
    service: SystemdService, unit: Unit, terms: SessionTerms, *, is_persistent: bool = False
) -> JournalHeader:
    """What the journal begins with; raises ConfigError when the unit is in no state to be changed."""
    if unit.active_state not in ("active", "inactive"):
        raise ConfigError(
            f"{service.described}: `the unit is active or inactive` must hold, it is {unit.active_state}; "
            f"wait, or `systemctl reset-failed {unit.name.full}` if it failed."
        )
    facts = service.facts()
    places = service.places(facts)
    token = new_token()
    return JournalHeader(
        id=f"{time.strftime('%Y%m%d-%H%M%S')}-{unit.name.key}-{secrets.token_hex(2)}",
        kind=terms.kind,
        study=terms.study,
        unit=unit.name.full,
        ssh=terms.ssh,
        use_sudo=terms.use_sudo,
        is_user=service.is_user,
        folder=places.folder,
        kept=places.kept if is_persistent else "",
        drop_in=f"{places.runtime}/{TRIAL_DROP_IN}",
        dependents=service.active_dependents(unit),
        orphan_timeout_s=terms.orphan_timeout_s,
        token=token,
        boot_id=facts.boot_id,
        former=unit.active_state,
        digest=unit_digest(unit, token),
        before=terms.before,
        engine=terms.engine,
        after_restore=terms.after_restore,
    )


def open_session(service: SystemdService, unit: Unit, journal: Journal, clock: Clock) -> ServiceSession:
    """Takes the lease and sets the watchdog; raises ConfigError when another spectune has the unit."""
    lease = UnitLease(service.host, journal, terms_of(journal.header), clock)
    try:
        lease.take()
    except ConfigError:
        journal.close("nothing was changed")
        raise
    except BaseException:
        with suppress(SpectuneError):  # out of reach: the watchdog or `spectune restore` does it
            end_session(lease, service, lambda: "", clock, _STOP_S + _START_S)
        raise
    lease.keep_alive()
    return ServiceSession(service, unit, lease, clock)


def finish_session(
    host: Host, journal: Journal, prove: Prove, clock: Clock, *, outcome: str = AS_BEFORE
) -> str:
    """Gives back what an interrupted session left; returns what the proof said."""
    header = journal.header
    service = service_of(host, header)
    lease = UnitLease(host, journal, terms_of(header), clock)
    lease.keep_alive_if_held()
    return end_session(lease, service, prove, clock, _STOP_S + _START_S, outcome=outcome)


def terms_of(header: JournalHeader) -> LeaseTerms:
    """What the host is told."""
    return LeaseTerms(
        drop_in=header.drop_in, dependents=header.dependents, orphan_timeout_s=header.orphan_timeout_s
    )


def service_of(host: Host, header: JournalHeader) -> SystemdService | DockerService:
    """What the session is about."""
    if header.keeper == "docker":
        return DockerService(host, header.unit)
    return SystemdService(host, UnitName.parse(header.unit), is_user=header.is_user)


def end_session(
    lease: UnitLease,
    service: KeptService,
    prove: Prove,
    clock: Clock,
    deadline_s: float,
    *,
    outcome: str = AS_BEFORE,
) -> str:
    """Gives back what the lease is about, with the proof of its definition; ends the signs of life."""
    proof = _with_definition(lease, service, prove) if outcome == AS_BEFORE else prove
    try:
        return give_back(lease, service, proof, clock, deadline_s=deadline_s, outcome=outcome)
    finally:
        lease.end_signs_of_life()
        lease.journal.release()


def _with_definition(lease: UnitLease, service: KeptService, prove: Prove) -> Prove:
    """The proof of its own definition, before that of the server."""

    def proof() -> str:
        service.check_same(lease.header)
        return prove()

    return proof
