"""Keeps a server as the systemd unit it already is: settings are tried through a runtime drop-in.

A start is four changes, each journalled and made under the lease: stop what runs, write the drop-in to
`/run/systemd/system/UNIT.d/`, daemon-reload, start. The drop-in is checked to be in force before the
start. The log is the unit's own journal, copied into a file with secrets masked.
"""

from collections.abc import Iterator
from pathlib import Path

from spectune.clock import Clock
from spectune.domain.command import MASK, Command, is_secret_name, mask_argv
from spectune.domain.endpoint import Endpoint
from spectune.errors import LaunchError, PortInUse
from spectune.launch import host_scripts
from spectune.launch.systemd_service import SystemdService, UnitState
from spectune.launch.systemd_unit import Unit, trial_drop_in
from spectune.launch.unit_lease import UnitLease

_FIRST_POLL_S, _LONGEST_POLL_S = 0.02, 0.5
_START_S = 30.0


class SystemdServer:
    """See `RunningServer`. Also stands for a unit that is merely looked at: then it has no lease."""

    def __init__(
        self,
        service: SystemdService,
        endpoint: Endpoint,
        log: "UnitLog",
        clock: Clock,
        lease: UnitLease | None = None,
        stop_s: float = 120.0,
    ) -> None:
        """The unit as it runs now."""
        self._service, self._endpoint, self._log, self._clock = service, endpoint, log, clock
        self._lease, self._stop_s = lease, stop_s
        self._invocation = service.state().invocation
        self._stopped_with: int | None = None

    @property
    def endpoint(self) -> Endpoint:
        """Where it is reached from here."""
        return self._endpoint

    @property
    def log_path(self) -> str:
        """The copy of its journal."""
        return str(self._log.path)

    @property
    def is_stopped(self) -> bool:
        """Whether `stop` was done."""
        return self._stopped_with is not None

    def exit_status(self) -> int | None:
        """Its main process' status, once the unit is down.

        Raises:
            LeaseLost: the unit was taken from us.
            LaunchError: somebody else restarted it.
        """
        if self._stopped_with is not None:
            return self._stopped_with
        if self._lease is not None:
            self._lease.check()
        state = self._service.state()
        if state.invocation != self._invocation and self._lease is not None:
            raise LaunchError(
                f"{self._service.described}: `only spectune restarts the unit during a trial` must hold, "
                "somebody else did."
            )
        return _ended_with(state)

    def process_ids(self) -> tuple[int, ...]:
        """Its processes where they are this machine's."""
        if self._stopped_with is not None or not self._service.host.is_local:
            return ()
        return self._service.process_ids(self._service.state().control_group)

    def log_text(self, max_bytes: int = 262_144) -> str:
        """The end of its journal since the start."""
        return self._log.text(max_bytes)

    def stop(self) -> None:
        """Stops the unit and waits until systemd has nothing of it left."""
        if self._stopped_with is not None or self._lease is None:
            return
        self._log.text()
        ended = _ended_with(self._service.state())
        self._lease.step("stop", host_scripts.STOP, self._log.path.stem)
        state = wait_until_down(self._service, self._stop_s, self._clock)
        status = ended if ended is not None else state.exit_status
        self._stopped_with = 0 if status is None else status


class SystemdLauncher:
    """See `Launcher`; one unit, one lease."""

    def __init__(
        self, service: SystemdService, unit: Unit, lease: UnitLease, log_folder: Path, clock: Clock
    ) -> None:
        """`unit` is as it was before the first change."""
        self._service, self._unit, self._lease = service, unit, lease
        self._log_folder, self._clock = log_folder, clock
        self._stop_s = stop_timeout_s(unit)
        self._server: SystemdServer | None = None

    def file_for(self, name: str) -> str:
        """Beside the drop-in, where systemd does not read it; it goes with the drop-in."""
        del name
        return f"{self._lease.terms.drop_in.removesuffix('.conf')}.json"

    def start(self, command: Command, endpoint: Endpoint, *, name: str, file_text: str = "") -> SystemdServer:
        """The unit with this command; its environment stays the unit's."""
        if self._server is not None and not self._server.is_stopped:
            raise PortInUse(
                f"{self._service.described}: `one server of a unit at a time` must hold, one runs."
            )
        self._lease.check()
        lease = self._lease
        if not self._service.state().is_down:
            lease.step("stop", host_scripts.STOP, name)
            wait_until_down(self._service, self._stop_s, self._clock)
        exec_line = self._unit.exec_line_for(command)
        lease.step("drop-in", host_scripts.DROP_IN, stdin=trial_drop_in(exec_line, is_trial=True))
        if file_text:
            lease.step("file", host_scripts.FILE, stdin=file_text)
        lease.step("reload", host_scripts.RELOAD)
        self._check_in_force(exec_line)
        before = self._service.state().invocation
        log = UnitLog.begin(self._service, self._log_folder, name, secrets_of(self._unit.command))
        lease.step("start", host_scripts.START, name)
        self._wait_begun(before)
        reached = self._service.host.reach(endpoint)
        self._server = SystemdServer(
            self._service, reached, log, self._clock, lease=lease, stop_s=self._stop_s
        )
        return self._server

    def _check_in_force(self, exec_line: str) -> None:
        unit = self._service.unit()
        if unit.exec_start != exec_line or unit.drop_ins[-1:] != (self._lease.terms.drop_in,):
            raise LaunchError(
                f"{self._service.described}: `spectune's drop-in is the last one` must hold, got "
                f"{', '.join(unit.drop_ins) or 'none'}; rename the later one."
            )

    def _wait_begun(self, before: str) -> None:
        give_up_s = self._clock.monotonic_s() + _START_S
        pauses = growing_pauses()
        while True:
            state = self._service.state()
            if state.invocation != before and state.invocation:
                return
            if self._clock.monotonic_s() > give_up_s or (state.is_down and state.sub == "condition"):
                raise LaunchError(
                    f"{self._service.described}: `the unit starts` must hold, it stays {state.active} "
                    f"({state.sub}); a Condition…= of it may not hold."
                )
            self._clock.sleep(next(pauses))


class UnitLog:
    """A unit's journal from a moment on, copied into a file."""

    def __init__(
        self, service: SystemdService, path: Path, since: tuple[str, ...], secrets: tuple[str, ...]
    ) -> None:
        """`since` are the words that tell journalctl where to begin."""
        self._service, self.path, self._since, self._secrets = service, path, since, secrets

    @classmethod
    def begin(cls, service: SystemdService, folder: Path, name: str, secrets: tuple[str, ...]) -> "UnitLog":
        """From now on."""
        folder.mkdir(parents=True, exist_ok=True)
        answer = service.journalctl("-n", "0", "--show-cursor")
        cursor = [
            line.partition(": ")[2] for line in answer.stdout.splitlines() if line.startswith("-- cursor")
        ]
        since = ("--after-cursor", cursor[0]) if cursor else ()
        return cls(service, folder / f"{name}.log", since, secrets)

    def text(self, max_bytes: int = 262_144) -> str:
        """Its end, secrets masked; the file is written anew."""
        answer = self._service.journalctl("-o", "cat", "-n", "5000", *self._since)
        text = answer.stdout
        for secret in self._secrets:
            text = text.replace(secret, MASK)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(text, encoding="utf-8")
        return text[-max_bytes:]


def growing_pauses() -> Iterator[float]:
    """Short ones at first, half a second in the end."""
    pause_s = _FIRST_POLL_S
    while True:
        yield pause_s
        pause_s = min(pause_s * 1.5, _LONGEST_POLL_S)


def wait_until_down(service: SystemdService, deadline_s: float, clock: Clock) -> UnitState:
    """Waits until no process of the unit is left; raises LaunchError."""
    give_up_s = clock.monotonic_s() + deadline_s
    pauses = growing_pauses()
    while True:
        state = service.state()
        if state.is_down:
            return state
        if clock.monotonic_s() > give_up_s:
            raise LaunchError(
                f"{service.described}: `the unit stops within {deadline_s:g} s` must hold, it is "
                f"{state.active} ({state.sub})."
            )
        clock.sleep(next(pauses))


def stop_timeout_s(unit: Unit) -> float:
    """How long its stop may take, from TimeoutStopUSec, with a margin."""
    return seconds_of(unit.shown("TimeoutStopUSec"), default_s=90.0) + 30.0


def seconds_of(text: str, *, default_s: float) -> float:
    """A time span as systemctl shows it; `default_s` for `infinity` and what cannot be read.

    >>> seconds_of("1min 30s", default_s=0.0), seconds_of("500ms", default_s=0.0)
    (90.0, 0.5)
    """
    units = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
    total = 0.0
    for word in text.split():
        number = word.rstrip("abcdefghijklmnopqrstuvwxyz")
        unit = word[len(number) :]
        if unit not in units or not number.replace(".", "", 1).isdecimal():
            return default_s
        total += float(number) * units[unit]
    return total or default_s


def secrets_of(command: Command) -> tuple[str, ...]:
    """Secret values of a command, to be masked in logs, longest first."""
    found = {value for name, value in command.env if is_secret_name(name)}
    for word, masked in zip(command.argv, mask_argv(command.argv), strict=True):
        if word != masked:
            found.add(word.partition("=")[2] if masked != MASK else word)
    return tuple(sorted((secret for secret in found if len(secret) >= 4), key=len, reverse=True))


def _ended_with(state: UnitState) -> int | None:
    if not state.is_down and not (state.active == "activating" and state.sub == "auto-restart"):
        return None
    return 1 if state.exit_status is None else state.exit_status
