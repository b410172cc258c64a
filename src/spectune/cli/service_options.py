"""The options of a kept server, shared by `tune` and `apply`: which unit, where, under what terms."""

import argparse
import re
import shlex
from dataclasses import dataclass

from spectune.cli.options import parse_duration
from spectune.domain.command import mask_argv
from spectune.errors import ConfigError
from spectune.launch.container_text import check_container_name
from spectune.launch.host import Host
from spectune.launch.local_host import SUDO, LocalHost
from spectune.launch.ssh_host import SshHost, check_destination
from spectune.launch.systemd_service import SystemdService
from spectune.launch.unit_name import UnitName

DEFAULT_ORPHAN_TIMEOUT_S = 120.0
DEFAULT_QUIET_S = 5.0
_SHORTEST_ORPHAN_TIMEOUT_S = 0.5
_MINUTES_A_DAY = 24 * 60


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitPlace:
    """A unit and how it is reached.

    Attributes:
        name: the unit.
        ssh: destination, "" for this machine.
        use_sudo: run commands through `sudo -n`.
        is_user: a unit of the user's own manager.
    """

    name: UnitName
    ssh: str
    use_sudo: bool
    is_user: bool

    @property
    def flags(self) -> str:
        """The options again, for messages."""
        words = ["--unit", self.name.full, *(("--ssh", self.ssh) if self.ssh else ())]
        words += ["--sudo"] if self.use_sudo else []
        words += ["--user"] if self.is_user else []
        return shlex.join(words)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerPlace:
    """A container and how it is reached.

    Attributes:
        name: of the container, or of the compose file's service.
        compose_file: on its host, "" for a container by its own name.
        ssh: destination, "" for this machine.
        use_sudo: run commands through `sudo -n`.
    """

    name: str
    compose_file: str
    ssh: str
    use_sudo: bool

    @property
    def flags(self) -> str:
        """The options again, for messages."""
        words = ["--docker", self.name, *(("--compose", self.compose_file) if self.compose_file else ())]
        words += [*(("--ssh", self.ssh) if self.ssh else ()), *(("--sudo",) if self.use_sudo else ())]
        return shlex.join(words)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A daily time, local to this machine; it may pass midnight.

    Attributes:
        begin_min: minutes after midnight.
        end_min: minutes after midnight, not equal to the begin.

    >>> Window(begin_min=23 * 60, end_min=60).left_min(30)
    30
    """

    begin_min: int
    end_min: int

    def left_min(self, now_min: int) -> int:
        """Minutes until it ends; 0 outside it."""
        length = (self.end_min - self.begin_min) % _MINUTES_A_DAY
        since = (now_min - self.begin_min) % _MINUTES_A_DAY
        return max(length - since, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceTerms:
    """Under what terms a unit or a container may be tuned.

    Attributes:
        place: the unit or the container.
        allows_live: tune although it serves somebody.
        quiet_s: how long it must have served nobody.
        before_stop: command before the first stop; empty for none.
        after_restore: command after the service is back; empty for none.
        window: when it may be down; None: any time.
        orphan_timeout_s: silence after which the watchdog gives the service back.
        is_confirmed: ask nothing.
    """

    place: UnitPlace | ContainerPlace
    allows_live: bool
    quiet_s: float
    before_stop: tuple[str, ...]
    after_restore: tuple[str, ...]
    window: Window | None
    orphan_timeout_s: float
    is_confirmed: bool


def add_unit_arguments(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """`--unit`, `--ssh`, `--sudo`, `--user`."""
    parser.add_argument("--unit", metavar="NAME", help="a systemd service, tuned through runtime drop-ins")
    parser.add_argument("--ssh", metavar="USER@HOST", help="the unit's host, by your own ssh config")
    parser.add_argument("--sudo", action="store_true", help="use `sudo -n` there")
    parser.add_argument("--user", action="store_true", help="a unit of the user's own manager")


def add_container_arguments(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """`--docker`, `--compose`."""
    parser.add_argument(
        "--docker",
        metavar="NAME",
        help="a container, put aside meanwhile (experimental; see docs/services.md)",
    )
    parser.add_argument("--compose", metavar="FILE", help="then NAME is a service of this compose file")


def add_terms_arguments(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """What `tune` asks beside."""
    parser.add_argument("--allow-live", action="store_true", help="tune it although it serves somebody")
    parser.add_argument(
        "--quiet-for", metavar="TIME", help="how long it must have served nobody (default 5s)"
    )
    parser.add_argument("--before-stop", metavar="CMD", help="run here before the first stop (drain)")
    parser.add_argument("--after-restore", metavar="CMD", help="run here when the service is back (undrain)")
    parser.add_argument("--window", metavar="HH:MM-HH:MM", help="the service may be down only then")
    parser.add_argument(
        "--orphan-timeout", metavar="TIME",
        help="silence after which a watchdog on the host gives the service back (default 2m)",
    )  # fmt: skip


def read_place(found: argparse.Namespace) -> UnitPlace | None:
    """The unit; None when there is none. Raises ConfigError."""
    if found.unit is None:
        for flag in ("ssh", "sudo", "user"):
            if getattr(found, flag):
                raise ConfigError(f"--{flag}: `it belongs to --unit or --docker` must hold; name one.")
        return None
    if found.ssh is not None:
        check_destination(found.ssh)
    if found.sudo and found.user:
        raise ConfigError("--sudo: `a user's own unit needs no root` must hold; leave --sudo or --user out.")
    return UnitPlace(
        name=UnitName.parse(found.unit), ssh=found.ssh or "", use_sudo=found.sudo, is_user=found.user
    )


def read_terms(found: argparse.Namespace) -> ServiceTerms | None:
    """The unit with its terms; None when there is none. Raises ConfigError."""
    place = read_container_place(found) or read_place(found)
    if place is None:
        for flag in ("allow_live", "quiet_for", "before_stop", "after_restore", "window", "orphan_timeout"):
            if getattr(found, flag):
                name = flag.replace("_", "-")
                raise ConfigError(f"--{name}: `it belongs to --unit or --docker` must hold; name one.")
        return None
    return ServiceTerms(
        place=place,
        allows_live=found.allow_live,
        quiet_s=DEFAULT_QUIET_S
        if found.quiet_for is None
        else parse_duration(found.quiet_for, flag="--quiet-for"),
        before_stop=_words(found.before_stop, "--before-stop"),
        after_restore=_words(found.after_restore, "--after-restore"),
        window=None if found.window is None else parse_window(found.window),
        orphan_timeout_s=_orphan_timeout(found.orphan_timeout),
        is_confirmed=found.yes,
    )


def read_container_place(found: argparse.Namespace) -> ContainerPlace | None:
    """The container; None when there is none. Raises ConfigError."""
    name, file = getattr(found, "docker", None), getattr(found, "compose", None)
    if name is None:
        if file is not None:
            raise ConfigError("--compose: `it belongs to --docker SERVICE` must hold; name the service.")
        return None
    if found.unit is not None or found.user:
        other = "--unit" if found.unit is not None else "--user"
        raise ConfigError(f"--docker: `a container or a unit` must be tuned, got {other} too; leave one out.")
    if found.ssh is not None:
        check_destination(found.ssh)
    return ContainerPlace(
        name=check_container_name(name),
        compose_file=file or "",
        ssh=found.ssh or "",
        use_sudo=found.sudo,
    )


def service_at(place: UnitPlace) -> SystemdService:
    """The unit as seen from here; its host is to be closed by the caller."""
    return SystemdService(host_at(place.ssh, use_sudo=place.use_sudo), place.name, is_user=place.is_user)


def host_at(ssh: str, *, use_sudo: bool) -> Host:
    """This machine or another one."""
    if ssh:
        return SshHost(ssh, use_sudo=use_sudo)
    return LocalHost(prefix=SUDO if use_sudo else ())


def parse_window(text: str) -> Window:
    """A time such as "02:00-04:00"; raises ConfigError.

    >>> parse_window("22:30-01:00")
    Window(begin_min=1350, end_min=60)
    """
    match = re.fullmatch(r"([01]?\d|2[0-3]):([0-5]\d)-([01]?\d|2[0-3]):([0-5]\d)", text, re.ASCII)
    if match is None or match.group(1, 2) == match.group(3, 4):
        raise ConfigError(f"--window: `a time such as 02:00-04:00` must be given, got {text!r}.")
    return Window(begin_min=int(match[1]) * 60 + int(match[2]), end_min=int(match[3]) * 60 + int(match[4]))


def _orphan_timeout(text: str | None) -> float:
    if text is None:
        return DEFAULT_ORPHAN_TIMEOUT_S
    value = parse_duration(text, flag="--orphan-timeout")
    if value < _SHORTEST_ORPHAN_TIMEOUT_S:
        least = f"{_SHORTEST_ORPHAN_TIMEOUT_S:g} s"
        raise ConfigError(f"--orphan-timeout: `at least {least}` must hold, got {text}.")
    return value


def _words(text: str | None, flag: str) -> tuple[str, ...]:
    """A command's words; it runs without a shell and is kept in the journal, so it may hold no secret."""
    if text is None:
        return ()
    try:
        words = tuple(shlex.split(text))
    except ValueError as exc:
        raise ConfigError(f"{flag}: `words quoted as in a shell` must be given, got {text!r}.") from exc
    if not words or mask_argv(words) != words:
        raise ConfigError(
            f"{flag}: `a command without secrets` must be given, for it is kept in the journal; put "
            "the secret into a script or its environment."
        )
    return words
