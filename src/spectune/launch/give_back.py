"""Gives a unit back: drop-in away, daemon-reload, former state, proof, and the journal closed.

The same steps whether the tuner ends well, is interrupted, or `spectune restore` finishes for it; every
one may be repeated. Once the watchdog has taken over, it is waited for.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from spectune.clock import Clock
from spectune.errors import ConfigError, LaunchError, LeaseLost, SpectuneError
from spectune.launch import host_scripts
from spectune.launch.journal import JournalHeader
from spectune.launch.systemd_launcher import growing_pauses
from spectune.launch.systemd_service import HostFacts, UnitState
from spectune.launch.unit_lease import NotReachedYet, UnitLease

AS_BEFORE, AS_APPLIED = "as before", "as applied"
_POLL_S = 0.1
_TRIES = 4

Prove = Callable[[], str]
"""Shows that the server is as it was; its words for the user. Raises SpectuneError when it is not."""


class KeptService(Protocol):
    """A unit or a container on its host, as far as giving it back goes."""

    @property
    def described(self) -> str:
        """For messages."""

    def facts(self) -> HostFacts:
        """The host's own word."""

    def state(self) -> UnitState:
        """How it is now."""

    def check_same(self, header: JournalHeader) -> None:
        """Raises LaunchError where its definition is not that from before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remains:
    """What a session has left on its host.

    Attributes:
        token: of whoever has the unit now; "" for nobody.
        has_given_up: whether the watchdog could not start the unit.
        has_drop_in: the trial's drop-in is there.
        has_pending: `apply` replaced a drop-in and did not confirm it.
    """

    token: str
    has_given_up: bool
    has_drop_in: bool
    has_pending: bool


def give_back(
    lease: UnitLease,
    service: KeptService,
    prove: Prove,
    clock: Clock,
    *,
    deadline_s: float,
    outcome: str = AS_BEFORE,
) -> str:
    """Returns what the proof said.

    Args:
        lease: whose journal is open.
        service: the unit.
        prove: called when the unit has its former state.
        clock: source of time.
        deadline_s: for one way back to the former state.
        outcome: what the journal says at its end.

    Raises:
        SpectuneError: it could not be given back, or is not as it was; the message says which.
    """
    try:
        _undo(lease, service, clock, deadline_s)
    except LeaseLost:
        _after_others(lease, service, clock, deadline_s)
    try:
        told = prove()
    except SpectuneError as error:
        _finish(lease)
        lease.journal.close(f"given back, but not proven: {error}")
        raise LaunchError(
            f"{service.described}: given back (drop-in gone, former state), but `it runs as before` is not "
            f"proven: {error}"
        ) from error
    _finish(lease)
    lease.journal.close(outcome)
    return told


def remains(lease: UnitLease) -> Remains:
    """What is left on the host."""
    header = lease.header
    words = (header.folder, lease.terms.drop_in, header.kept)
    answer = lease.host.run(("/bin/sh", "-c", lease.scripts.left, "spectune", *words))
    found = dict(line.split("=", 1) for line in answer.stdout.splitlines() if "=" in line)
    return Remains(
        token=found.get("token", ""),
        has_given_up="gave_up" in found,
        has_drop_in="drop_in" in found,
        has_pending="pending" in found,
    )


def wait_for_former_state(lease: UnitLease, clock: Clock, deadline_s: float) -> bool:
    """Whether the unit reaches its former state in time."""
    give_up_s = clock.monotonic_s() + deadline_s
    pauses = growing_pauses()
    while clock.monotonic_s() < give_up_s:
        try:
            lease.change("check", host_scripts.CHECK)
        except NotReachedYet:
            clock.sleep(next(pauses))
        else:
            return True
    return False


def _undo(lease: UnitLease, service: KeptService, clock: Clock, deadline_s: float) -> None:
    """Orders the former state until it is reached: memory of the last server may need a while to be free."""
    for attempt in range(_TRIES):
        lease.step("undo", lease.scripts.undo)
        give_up_s = clock.monotonic_s() + deadline_s
        while clock.monotonic_s() < give_up_s:
            if wait_for_former_state(lease, clock, 2.0):
                return
            if service.state().active == "failed":
                break
        clock.sleep(2.0 * attempt)
    raise LaunchError(
        f"{service.described}: `the unit is {lease.header.former} again` must hold, it is "
        f"{service.state().active} after {_TRIES} attempts; its own settings are back (the drop-in is "
        "gone): see its log, start it by hand, then run `spectune restore`."
    )


def _after_others(lease: UnitLease, service: KeptService, clock: Clock, deadline_s: float) -> None:
    """The lease is gone: waits for the watchdog, and undoes what is left when nobody is at it."""
    give_up_s = clock.monotonic_s() + deadline_s
    ours = (lease.header.token, f"watchdog-{lease.header.token}")
    while (left := remains(lease)).token and not left.has_given_up:
        if left.token not in ours:
            lease.journal.close("as before; another session has the unit since")
            raise ConfigError(
                f"{service.described}: was given back before; another spectune has the unit now; "
                "nothing can be proven."
            )
        if clock.monotonic_s() > give_up_s:
            raise LaunchError(f"{service.described}: the watchdog has it for {deadline_s:g} s.")
        clock.sleep(_POLL_S)
    if left.has_given_up:
        lease.step("take over", host_scripts.TAKE_OVER)
        _undo(lease, service, clock, deadline_s)
        return
    was_rebooted = service.facts().boot_id != lease.header.boot_id
    if left.has_drop_in or left.has_pending or was_rebooted:
        lease.take_again()
        _undo(lease, service, clock, deadline_s)


def _finish(lease: UnitLease) -> None:
    lease.end_signs_of_life()
    lease.step("finish", host_scripts.FINISH)
