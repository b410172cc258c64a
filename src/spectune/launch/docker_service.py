"""A container on a host, read: what it is, how it is, what it logged. Changes nothing. EXPERIMENTAL.

Written against the documented fields of `docker inspect`; never run against a real daemon.
"""

import hashlib
import json
import re

from spectune.domain.text import is_digits
from spectune.errors import ConfigError, LaunchError
from spectune.launch import docker_scripts
from spectune.launch.container_text import Container, check_container_name, read_container
from spectune.launch.host import Host, HostAnswer
from spectune.launch.journal import JournalHeader
from spectune.launch.systemd_service import HostFacts, UnitState
from spectune.launch.systemd_unit import read_properties

_ASK_S = 30.0


class DockerService:
    """A container by its name."""

    def __init__(self, host: Host, name: str) -> None:
        """Asks nothing yet; raises ConfigError when it is no container's name."""
        self.host, self.name = host, check_container_name(name)

    @property
    def described(self) -> str:
        """For messages."""
        return f"container {self.name} on {self.host.name}"

    @property
    def spare_name(self) -> str:
        """The name under which the original waits."""
        return f"{self.name}.spectune-original"

    def facts(self) -> HostFacts:
        """The host's own word; raises ConfigError when containers cannot be changed there."""
        answer = self.host.run(("/bin/sh", "-c", docker_scripts.FACTS, "spectune"))
        found = read_properties(answer.stdout)
        values = dict(found)
        if answer.status != 0 or "uid" not in values:
            raise ConfigError(f"{self.host.name}: `commands run there` must hold, got: {answer.complaint}.")
        missing = [value for name, value in found if name == "missing"]
        if missing:
            raise ConfigError(f"{self.host.name}: `{missing[0]}` must be there, it is not.")
        return HostFacts(
            uid=int(values["uid"]), boot_id=values["boot_id"], runtime=values["runtime"], config="", state=""
        )

    def folder(self, facts: HostFacts) -> str:
        """Where spectune keeps its state on the host, gone after a reboot."""
        readable = re.sub(r"[^A-Za-z0-9_-]", "_", self.name)[:40]
        key = f"docker-{readable}-{hashlib.sha256(self.name.encode()).hexdigest()[:10]}"
        return f"/run/spectune/{key}" if facts.uid == 0 else f"{facts.runtime}/spectune/{key}"

    def has(self, name: str) -> bool:
        """Whether there is a container of this name."""
        return self._inspected(name).status == 0

    def container(self, name: str = "") -> Container:
        """The container that has the name now; raises ConfigError where there is none."""
        asked = name or self.name
        answer = self._inspected(asked)
        if answer.status != 0:
            raise ConfigError(
                f"{self.host.name}: `a container named {asked}` must be there, got: {answer.complaint}; "
                "`docker ps -a` shows what there is."
            )
        return read_container(answer.stdout)

    def state(self) -> UnitState:
        """How the container with the name is; raises LaunchError when docker does not say."""
        try:
            container = self.container()
        except ConfigError as error:
            raise LaunchError(str(error)) from error
        status, code = container.state.text("Status"), container.state.number("ExitCode")
        is_over = not container.is_running and status in ("exited", "dead")
        return UnitState(
            active="active" if container.is_running else "failed" if is_over and code else "inactive",
            sub=status,
            exit_status=_as_signal(code) if is_over else None,
            invocation=f"{container.id} {container.state.text('StartedAt')}",
            control_group="",
            has_job=False,
        )

    def process_ids(self) -> tuple[int, ...]:
        """Its processes as the host numbers them."""
        answer = self.host.run(("docker", "top", self.name, "-eo", "pid"), timeout_s=_ASK_S)
        words = answer.stdout.split() if answer.status == 0 else []
        return tuple(sorted(int(word) for word in words if is_digits(word)))

    def logs(self) -> str:
        """What the container with the name has logged, its end."""
        return self.host.run(("/bin/sh", "-c", docker_scripts.LOGS, "spectune", self.name)).stdout

    def check_same(self, header: JournalHeader) -> None:
        """Raises LaunchError where the container with the name is not the original, or was changed."""
        if container_digest(self.container(), header.token) != header.digest:
            raise LaunchError(
                "`the container is the very one from before` must hold, it is another or was changed; did "
                "somebody recreate it meanwhile?"
            )

    def _inspected(self, name: str) -> HostAnswer:
        return self.host.run(("docker", "inspect", "--type", "container", "--", name), timeout_s=_ASK_S)


def container_digest(container: Container, token: str) -> str:
    """Stands for identity and settings without showing them."""
    settings = {"config": container.config.values, "host": container.host_config.values}
    text = json.dumps([token, container.id, settings], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def compose_container(host: Host, file: str, service: str) -> str:
    """The name of the one container of a compose file's service; raises ConfigError."""
    words = ("docker", "compose", "--file", file, "ps", "--all", "--quiet", "--", service)
    answer = host.run(words, timeout_s=_ASK_S)
    ids = answer.stdout.split()
    if answer.status != 0 or len(ids) != 1:
        said = answer.complaint if answer.status != 0 else f"{len(ids)} containers"
        raise ConfigError(
            f"--compose {file}: `one container of service {service}` must be there on {host.name}, got "
            f"{said}."
        )
    return DockerService(host, ids[0]).container().name


def _as_signal(code: int) -> int:
    """Docker says 128 + N for signal N; here it is −N."""
    return 128 - code if 128 < code < 160 else code
