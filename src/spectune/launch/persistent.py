"""Puts a setting in place for good: a persistent drop-in, the one before it kept outside /run.

Until the server has shown that it runs the new setting, the old drop-in comes back whatever happens; from
then on the new one stays. There is no state between the two.
"""

from dataclasses import dataclass

from spectune.clock import Clock
from spectune.errors import ConfigError, LaunchError
from spectune.launch import host_scripts
from spectune.launch.give_back import AS_APPLIED, Prove, wait_for_former_state
from spectune.launch.host import Host
from spectune.launch.journal import JournalHeader
from spectune.launch.service_session import ServiceSession
from spectune.launch.systemd_service import PERSISTENT_DROP_IN, SystemdService, UnitPlaces
from spectune.launch.systemd_unit import Unit, trial_drop_in

_READY_S = 600.0
CREDENTIAL = "spectune-schedule.json"
"""A file as a systemd credential: with the drop-in it comes and goes as one."""
_WITH_CREDENTIALS = 247
"""The first systemd with SetCredential=; an older one passes over the line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PersistentChange:
    """A drop-in before and after.

    Attributes:
        path: its place.
        before: its text, "" where there is none.
        after: the text to be, "" to remove it.
    """

    path: str
    before: str
    after: str


def credential_path(unit: Unit) -> str:
    """Where the server finds a file of its own that the drop-in carries: systemd writes it at each start.

    The folder has the unit's own name, also where the unit was asked for by an alias.
    """
    return f"/run/credentials/{unit.shown('Id') or unit.name.full}/{CREDENTIAL}"


def change_to(service: SystemdService, exec_line: str, file_text: str = "") -> PersistentChange:
    """The change that makes the unit run this line.

    Args:
        service: the unit.
        exec_line: of its drop-in.
        file_text: one line that the server reads from `credential_path`; "" for no file.

    Raises:
        ConfigError: a file is needed, and the unit is a user's, for whom systemd has no such fixed place, or
            systemd is too old to write it.
    """
    assert not set(file_text) & set("\\\n"), "a credential is one line without escapes"
    if file_text and service.is_user:
        raise ConfigError(
            f"{service.described}: `a schedule that needs a file is applied to a system unit` must hold, "
            "it is a user's; put the file and the flags that the study's page shows in place by hand."
        )
    facts = service.facts()
    if file_text and 0 < facts.systemd < _WITH_CREDENTIALS:
        raise ConfigError(
            f"{service.described}: `systemd >= {_WITH_CREDENTIALS}` must hold for a schedule that needs a "
            f"file, it is {facts.systemd}; leave --schedule out for the fixed setting, or put the file and "
            "the flags that the study's page shows in place by hand."
        )
    places = service.places(facts)
    path = f"{places.persistent}/{PERSISTENT_DROP_IN}"
    before = _read(service, path)
    after = trial_drop_in(exec_line, is_trial=False)
    if file_text:
        after += f"SetCredential={CREDENTIAL}:{file_text}\n"
    return PersistentChange(path=path, before=before, after=after)


def change_back(service: SystemdService) -> PersistentChange:
    """The change that takes the last `apply` back; raises ConfigError where there was none."""
    places = service.places(service.facts())
    if not _read(service, f"{places.kept}/target"):
        raise ConfigError(f"{service.described}: `an apply before` must have been, there is none to undo.")
    path = f"{places.persistent}/{PERSISTENT_DROP_IN}"
    return PersistentChange(path=path, before=_read(service, path), after=_kept(service, places))


def apply_change(session: ServiceSession, change: PersistentChange, prove: Prove, clock: Clock) -> str:
    """Makes the change and keeps it once proven; what the proof said.

    Raises:
        SpectuneError: it was not proven; the caller gives the unit back, with the drop-in from before.
    """
    lease, service = session.lease, session.service
    lease.step("persist", host_scripts.PERSIST, change.path, stdin=change.after)
    lease.step("restart", host_scripts.RESTART)
    if not wait_for_former_state(lease, clock, _READY_S):
        raise LaunchError(f"{service.described}: `it starts with the new drop-in` must hold, it does not.")
    unit = service.unit()
    if (change.path in unit.drop_ins) != bool(change.after):
        raise LaunchError(f"{service.described}: `{change.path} is in force` must hold, it is not.")
    told = prove()
    lease.step("commit", host_scripts.COMMIT)
    lease.end_signs_of_life()
    lease.step("finish", host_scripts.FINISH)
    lease.journal.close(AS_APPLIED)
    return told


def is_committed(host: Host, header: JournalHeader) -> bool:
    """Whether an interrupted `apply` had got as far as being kept."""
    if header.kind != "apply":
        return False
    answer = host.run(("cat", "--", f"{header.kept}/committed"))
    return answer.status == 0 and answer.stdout.strip() == header.token


def _kept(service: SystemdService, places: UnitPlaces) -> str:
    return _read(service, f"{places.kept}/previous")


def _read(service: SystemdService, path: str) -> str:
    answer = service.host.run(("cat", "--", path))
    return answer.stdout if answer.status == 0 else ""
