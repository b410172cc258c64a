"""Keeps a server as the container it already is: trials run in one like it, under its name. EXPERIMENTAL.

The original is stopped and renamed, never removed. A start is, each journalled and made under the lease:
stop what has the name, write the variables, create, join further networks, put the file in, start.
"""

from pathlib import Path

from spectune.clock import Clock
from spectune.domain.command import MASK, Command
from spectune.domain.endpoint import Endpoint
from spectune.errors import LaunchError, PortInUse
from spectune.launch import docker_scripts
from spectune.launch.container_text import Container
from spectune.launch.container_words import connect_words, create_words, environment_text
from spectune.launch.docker_service import DockerService
from spectune.launch.systemd_launcher import growing_pauses, secrets_of
from spectune.launch.systemd_service import UnitState
from spectune.launch.unit_lease import UnitLease

DRAIN_S = 30
_STOP_MARGIN_S = 60.0
_FILE = "/spectune-schedule.json"


class DockerServer:
    """See `RunningServer`. Also stands for a container that is merely looked at: then it has no lease."""

    def __init__(
        self,
        service: DockerService,
        endpoint: Endpoint,
        log: "ContainerLog",
        clock: Clock,
        lease: UnitLease | None = None,
    ) -> None:
        """The container as it runs now."""
        self._service, self._endpoint, self._log, self._clock = service, endpoint, log, clock
        self._lease = lease
        self._invocation = service.state().invocation
        self._stopped_with: int | None = None

    @property
    def endpoint(self) -> Endpoint:
        """Where it is reached from here."""
        return self._endpoint

    @property
    def log_path(self) -> str:
        """The copy of its log."""
        return str(self._log.path)

    @property
    def is_stopped(self) -> bool:
        """Whether `stop` was done."""
        return self._stopped_with is not None

    def exit_status(self) -> int | None:
        """Its first process' status, once it ended.

        Raises:
            LeaseLost: the container was taken from us.
            LaunchError: somebody else restarted or replaced it.
        """
        if self._stopped_with is not None:
            return self._stopped_with
        if self._lease is not None:
            self._lease.check()
        state = self._service.state()
        if state.invocation != self._invocation and self._lease is not None:
            raise LaunchError(
                f"{self._service.described}: `only spectune restarts it during a trial` must hold, somebody "
                "else did."
            )
        return _ended_with(state)

    def process_ids(self) -> tuple[int, ...]:
        """Its processes where they are this machine's."""
        if self._stopped_with is not None or not self._service.host.is_local:
            return ()
        return self._service.process_ids()

    def log_text(self, max_bytes: int = 262_144) -> str:
        """The end of its log."""
        return self._log.text(max_bytes, is_over=self._stopped_with is not None)

    def stop(self) -> None:
        """Stops the container and waits until docker says so; it is removed later."""
        if self._stopped_with is not None or self._lease is None:
            return
        self._log.text()
        ended = _ended_with(self._service.state())
        if ended is None:
            self._lease.step("stop", docker_scripts.STOP, str(DRAIN_S))
        state = wait_until_over(self._service, self._clock)
        status = ended if ended is not None else _ended_with(state)
        self._log.text()
        self._stopped_with = 0 if status is None else status


class DockerLauncher:
    """See `Launcher`; one container, one lease."""

    def __init__(
        self,
        service: DockerService,
        container: Container,
        lease: UnitLease,
        log_folder: Path,
        clock: Clock,
    ) -> None:
        """`container` is the original as it was before the first change."""
        self._service, self._container, self._lease = service, container, lease
        self._log_folder, self._clock = log_folder, clock
        self._server: DockerServer | None = None

    def file_for(self, name: str) -> str:
        """In the trial's container."""
        del name
        return _FILE

    def start(self, command: Command, endpoint: Endpoint, *, name: str, file_text: str = "") -> DockerServer:
        """A container like the original with this command."""
        service, lease = self._service, self._lease
        if self._server is not None and not self._server.is_stopped:
            raise PortInUse(f"{service.described}: `one server of a name at a time` must hold, one runs.")
        lease.check()
        if service.state().active == "active":
            lease.step("stop", docker_scripts.STOP, str(DRAIN_S))
            wait_until_over(service, self._clock)
        self._create(command)
        if file_text:
            lease.step("file", docker_scripts.FILE, _FILE, stdin=file_text)
        log = ContainerLog(service, self._log_folder / f"{name}.log", secrets_of(self._container.command))
        lease.step("start", docker_scripts.START)
        reached = service.host.reach(service.container().reached_at(endpoint))
        self._server = DockerServer(service, reached, log, self._clock, lease=lease)
        return self._server

    def _create(self, command: Command) -> None:
        lease, original = self._lease, self._container
        env_file, token = f"{lease.header.folder}/env", lease.header.token
        lease.step("environment", docker_scripts.ENVIRONMENT, stdin=environment_text(original))
        words = create_words(original, command.argv, env_file=env_file, token=token)
        lease.step("create", docker_scripts.CREATE, stdin="".join(f"{word}\0" for word in words))
        for network in connect_words(original):
            lease.step("connect", docker_scripts.CONNECT, *network)


class ContainerLog:
    """The log of the container that has the name, copied into a file."""

    def __init__(self, service: DockerService, path: Path, secrets: tuple[str, ...]) -> None:
        """Copies nothing yet."""
        self._service, self.path, self._secrets = service, path, secrets
        self._last = ""

    def text(self, max_bytes: int = 262_144, *, is_over: bool = False) -> str:
        """Its end, secrets masked; the file is written anew unless the container is over and was read."""
        if not is_over:
            self._last = self._service.logs()
            for secret in self._secrets:
                self._last = self._last.replace(secret, MASK)
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_text(self._last, encoding="utf-8")
        return self._last[-max_bytes:]


def wait_until_over(service: DockerService, clock: Clock) -> UnitState:
    """Waits until the container with the name does not run any more; raises LaunchError."""
    give_up_s = clock.monotonic_s() + DRAIN_S + _STOP_MARGIN_S
    pauses = growing_pauses()
    while True:
        state = service.state()
        if state.active != "active":
            return state
        if clock.monotonic_s() > give_up_s:
            raise LaunchError(
                f"{service.described}: `it stops within {DRAIN_S + _STOP_MARGIN_S:g} s` must hold, it runs."
            )
        clock.sleep(next(pauses))


def _ended_with(state: UnitState) -> int | None:
    if state.active == "active" or state.sub not in ("exited", "dead"):
        return None
    return state.exit_status or 0
