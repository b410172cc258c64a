"""A container read from the text of `docker inspect`, and the words that create another one like it. Pure.

Field names are those of the Docker Engine API (ContainerInspect). What a trial's container cannot be given
exactly is refused, never left out: see `obstacle`.
"""

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from spectune.domain.command import Command, is_secret_name
from spectune.domain.endpoint import Endpoint
from spectune.errors import ConfigError, ProtocolError

TRIAL_LABEL = "spectune.trial"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{1,200}")
_OWN_NETWORKS = ("host", "none", "default", "bridge")
_ANYWHERE = ("", "0.0.0.0", "::")  # noqa: S104  (read, not bound)


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonObject:
    """An object of `docker inspect`, read key by key; what is null or missing is empty."""

    values: Mapping[str, object]
    where: str

    def child(self, key: str) -> "JsonObject":
        """The object at this key."""
        value = self.values.get(key)
        if value is None:
            value = {}
        if not isinstance(value, dict):
            raise self._mistyped(key, "an object", value)
        return JsonObject(values=value, where=f"{self.where}.{key}")

    def children(self, key: str) -> tuple["JsonObject", ...]:
        """The objects of the list at this key."""
        value = self.values.get(key) or []
        if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
            raise self._mistyped(key, "a list of objects", value)
        return tuple(JsonObject(values=entry, where=f"{self.where}.{key}") for entry in value)

    def texts(self, key: str) -> tuple[str, ...]:
        """The strings of the list at this key; a lone string is one."""
        value = self.values.get(key) or []
        value = [value] if isinstance(value, str) else value
        if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
            raise self._mistyped(key, "a list of strings", value)
        return tuple(value)

    def text(self, key: str) -> str:
        """The string at this key."""
        value = self.values.get(key)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self._mistyped(key, "a string", value)
        return value

    def number(self, key: str) -> int:
        """The whole number at this key."""
        value = self.values.get(key)
        if value is None:
            return 0
        if not isinstance(value, int):
            raise self._mistyped(key, "a whole number", value)
        return int(value)

    def pairs(self, key: str) -> tuple[tuple[str, str], ...]:
        """The strings of the object at this key, by name."""
        return tuple((name, str(value)) for name, value in self.child(key).values.items())

    def is_set(self, key: str) -> bool:
        """Whether something other than nothing is there."""
        return self.values.get(key) not in (None, "", 0, False, [], {})

    def _mistyped(self, key: str, wanted: str, value: object) -> ProtocolError:
        return ProtocolError(
            f"docker inspect: `{self.where}.{key} is {wanted}` must hold, got {value!r:.80}."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A container as docker has it now.

    Attributes:
        inspected: the whole object.
    """

    inspected: JsonObject

    @property
    def id(self) -> str:
        """Its own for life."""
        return self.inspected.text("Id")

    @property
    def name(self) -> str:
        """Without the slash in front."""
        return self.inspected.text("Name").removeprefix("/")

    @property
    def config(self) -> JsonObject:
        """What it was created with."""
        return self.inspected.child("Config")

    @property
    def host_config(self) -> JsonObject:
        """What it was given of the host."""
        return self.inspected.child("HostConfig")

    @property
    def state(self) -> JsonObject:
        """How it is."""
        return self.inspected.child("State")

    @property
    def is_running(self) -> bool:
        """Whether it runs now."""
        return self.state.values.get("Running") is True

    @property
    def environment(self) -> tuple[tuple[str, str], ...]:
        """Its variables, the image's included."""
        pairs = (entry.partition("=") for entry in self.config.texts("Env"))
        return tuple((name, value) for name, equals, value in pairs if equals)

    @property
    def command(self) -> Command:
        """What it runs: entry point and arguments; secret variables come along, to be masked."""
        secret = tuple((name, value) for name, value in self.environment if is_secret_name(name))
        argv = (*self.config.texts("Entrypoint"), *self.config.texts("Cmd"))
        if not argv:
            raise ConfigError(f"container {self.name}: `it runs a command` must hold, it names none.")
        return Command(argv=argv, env=secret)

    @property
    def service(self) -> str:
        """The compose service it belongs to, "" for none."""
        return dict(self.config.pairs("Labels")).get("com.docker.compose.service", "")

    @property
    def restart_policy(self) -> str:
        """What docker does when it ends."""
        return self.host_config.child("RestartPolicy").text("Name") or "no"

    def reached_at(self, inside: Endpoint) -> Endpoint:
        """Where its host reaches what listens on `inside` in it; raises ConfigError where nothing does."""
        if self.host_config.text("NetworkMode") == "host":
            return inside
        for binding in self.inspected.child("NetworkSettings").child("Ports").children(f"{inside.port}/tcp"):
            host = binding.text("HostIp")
            host = "127.0.0.1" if host in _ANYWHERE else host
            return Endpoint(host=host, port=int(binding.text("HostPort")), api_key=inside.api_key)
        for network in self.networks.values():
            if network.text("IPAddress"):
                host = network.text("IPAddress")
                return Endpoint(host=host, port=inside.port, api_key=inside.api_key)
        raise ConfigError(
            f"container {self.name}: `port {inside.port} is published, or it has an address` must hold; "
            "publish it with -p."
        )

    @property
    def networks(self) -> dict[str, JsonObject]:
        """Its networks by name, the one it was created on first."""
        all_of_them = self.inspected.child("NetworkSettings").child("Networks")
        first = self.host_config.text("NetworkMode")
        names = sorted(all_of_them.values, key=lambda name: name != first)
        return {name: all_of_them.child(name) for name in names}


def check_container_name(text: str) -> str:
    """The name as docker takes it; raises ConfigError."""
    if not _NAME.fullmatch(text):
        raise ConfigError(
            f"--docker: `a container's name` must be given, got {text!r}; `docker ps` shows the names."
        )
    return text


def read_container(text: str) -> Container:
    """The container of `docker inspect --type container NAME`; raises ProtocolError."""
    try:
        found: object = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list) or len(found) != 1 or not isinstance(found[0], dict):
        raise ProtocolError(f"docker inspect: `a list of one container` must come, got {text[:120]!r}.")
    container = Container(inspected=JsonObject(values=found[0], where="container"))
    if not container.id or not container.name:
        raise ProtocolError("docker inspect: `Id and Name` must be there; they are missing.")
    return container


def masked_summary(container: Container) -> str:
    """Image, restart policy and networks, and the names of its variables, for the user to see."""
    names = " ".join(f"{name}=****" for name, _ in container.environment)
    mode = container.host_config.text("NetworkMode") or "default"
    image = shlex.quote(container.config.text("Image"))
    return f"image {image}, restart {container.restart_policy}, network {mode}, environment {names}"


def is_own_network(name: str) -> bool:
    """Whether it is one of docker's own networks, on which there are no aliases."""
    return name in _OWN_NETWORKS or name.startswith("container:")
