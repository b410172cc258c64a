"""The right to change one unit: a token on its host that every change checks under a lock.

A change is one shell command. It is announced in the journal before and noted there after. Beside it a
thread gives a sign of life, for a watchdog on the host that gives the service back when it stops.
"""

import secrets
import threading
from contextlib import suppress
from dataclasses import dataclass

from spectune.clock import Clock
from spectune.domain.text import is_digits
from spectune.errors import ConfigError, HostUnreachable, LaunchError, LeaseLost
from spectune.launch import docker_scripts, host_scripts
from spectune.launch.host import Host
from spectune.launch.journal import Journal, JournalHeader, header_text

_SCRIPT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTerms:
    """What the host is told when the lease is taken.

    Attributes:
        drop_in: the trial's drop-in, taken away by whoever gives the service back.
        dependents: units to start again.
        orphan_timeout_s: silence after which the watchdog acts.
    """

    drop_in: str
    dependents: tuple[str, ...]
    orphan_timeout_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class KeeperScripts:
    """What differs between what keeps a server.

    Attributes:
        scope: word for the host.
        undo: gives the server back.
        watch: sets the watchdog.
        left: tells what a session has left.
    """

    scope: str
    undo: str
    watch: str
    left: str


def scripts_of(header: JournalHeader) -> KeeperScripts:
    """Those for a unit of either manager, or for a container."""
    if header.keeper == "docker":
        return KeeperScripts(
            scope="docker",
            undo=docker_scripts.UNDO,
            watch=docker_scripts.WATCH,
            left=docker_scripts.LEFT,
        )
    return KeeperScripts(
        scope="user" if header.is_user else "system",
        undo=host_scripts.UNDO,
        watch=host_scripts.WATCH,
        left=host_scripts.LEFT,
    )


def new_token() -> str:
    """A token that nobody else has."""
    return secrets.token_hex(8)


class UnitLease:
    """See the module."""

    def __init__(self, host: Host, journal: Journal, terms: LeaseTerms, clock: Clock) -> None:
        """Takes nothing yet."""
        self.host, self.journal, self.terms, self._clock = host, journal, terms, clock
        self.scripts = scripts_of(journal.header)
        self._lost = ""
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def header(self) -> JournalHeader:
        """What the journal says it is about."""
        return self.journal.header

    def take(self) -> None:
        """Takes the lease and sets the watchdog; raises ConfigError when another has the lease."""
        self.step("lease", host_scripts.ACQUIRE, *self._acquire_words(), stdin=header_text(self.header))
        self.step("watchdog", self.scripts.watch, self.scripts.undo, stdin=host_scripts.WATCHDOG)

    def take_again(self) -> None:
        """The lease of an interrupted session whose state is gone, to undo what it left."""
        words, text = self._acquire_words(), header_text(self.header)
        self.step("lease again", host_scripts.ACQUIRE, *words, stdin=text)

    def keep_alive(self) -> None:
        """Starts the signs of life."""
        self._thread = threading.Thread(target=self._beat, name="spectune-heartbeat", daemon=True)
        self._thread.start()

    def keep_alive_if_held(self) -> None:
        """Signs of life for a lease that an interrupted session left, so that its watchdog stays quiet."""
        with suppress(LaunchError):
            self._run("heartbeat", host_scripts.BEAT, (), "")
            self.keep_alive()

    def end_signs_of_life(self) -> None:
        """Ends the thread."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def check(self) -> None:
        """Raises LeaseLost when a sign of life was refused."""
        if self._lost:
            raise LeaseLost(self._lost)

    def step(self, name: str, script: str, *words: str, stdin: str = "") -> None:
        """One change: announced, made, noted.

        Raises:
            LeaseLost: somebody else has taken the unit over; nothing was changed.
            HostUnreachable: no connection for longer than half the orphan timeout.
            LaunchError: the change failed.
        """
        self.journal.announce(name)
        self.change(name, script, *words, stdin=stdin)
        self.journal.done(name)

    def change(self, name: str, script: str, *words: str, stdin: str = "") -> None:
        """The change alone; safe to repeat, so a dropped line is tried again for a while."""
        give_up_s = self._clock.monotonic_s() + self.terms.orphan_timeout_s / 2
        while True:
            try:
                self._run(name, script, words, stdin)
            except HostUnreachable:
                if self._clock.monotonic_s() > give_up_s:
                    raise
                self._clock.sleep(0.2)
            else:
                return

    def _run(self, name: str, script: str, words: tuple[str, ...], stdin: str) -> None:
        header = self.header
        argv = ("/bin/sh", "-c", script, "spectune", header.folder, header.token, *words)
        answer = self.host.run(argv, stdin=stdin, timeout_s=_SCRIPT_S)
        match answer.status:
            case 0:
                return
            case host_scripts.LEASE_LOST:
                raise LeaseLost(
                    f"{header.unit}: `the lease is ours` must hold, it is not (step {name}); the watchdog "
                    "or a `spectune restore` gives the service back."
                )
            case host_scripts.LEASE_TAKEN:
                raise ConfigError(_taken(header.unit, answer.stdout))
            case host_scripts.LOCK_BUSY:
                raise LaunchError(
                    f"{header.unit}: `{header.folder}.lock is free` must hold, it is not for 20 s."
                )
            case host_scripts.NOT_REACHED:
                raise NotReachedYet
            case _:
                raise LaunchError(
                    f"{header.unit}: step {name} failed on {self.host.name}: {answer.complaint}."
                )

    def _acquire_words(self) -> tuple[str, ...]:
        header, terms = self.header, self.terms
        scope = self.scripts.scope
        timeout = str(max(int(terms.orphan_timeout_s * 100), 1))
        return (header.unit, scope, header.former, terms.drop_in, timeout, header.kept, *terms.dependents)

    def _beat(self) -> None:
        while not self._ended.wait(self.terms.orphan_timeout_s / 5):
            try:
                self._run("heartbeat", host_scripts.BEAT, (), "")
            except LeaseLost as error:
                self._lost = str(error)
                return
            except LaunchError:
                continue  # the line is down: the next one may come through


class NotReachedYet(LaunchError):
    """The unit is not yet where it was."""


def _taken(unit: str, told: str) -> str:
    words = told.split()
    silence_s = int(words[0]) / 100 if words and is_digits(words[0].lstrip("-")) else 0.0
    return (
        f"{unit}: `one spectune at a time changes a unit` must hold, another has it (last sign of life "
        f"{silence_s:.0f} s ago); wait for it, or run `spectune restore` where it was started."
    )
