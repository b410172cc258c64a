"""Takes up a session whose tuner ran on another machine and is gone, from its copy on the serving host."""

from dataclasses import dataclass, replace
from pathlib import Path

from spectune.domain.text import is_digits
from spectune.errors import ConfigError
from spectune.launch import host_scripts
from spectune.launch.docker_service import DockerService
from spectune.launch.foreign_header import ExpectedPlace, check_foreign
from spectune.launch.journal import Journal, JournalHeader, read_header, read_header_text
from spectune.launch.systemd_service import TRIAL_DROP_IN, HostFacts, SystemdService


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopted:
    """A session that was taken up.

    Attributes:
        path: its journal here.
        dropped: the command that the session would have run on its tuner's machine at the end. It is the
            host's word, so that it is told and never run; empty for none.
    """

    path: Path
    dropped: tuple[str, ...]


def adopt(service: SystemdService | DockerService, folder: Path, *, ssh: str, use_sudo: bool) -> Adopted:
    """A journal in `folder` here for what the host knows of the session; `restore` finishes it.

    Args:
        service: the unit or container.
        folder: where journals lie on this machine.
        ssh: how the host is reached from here, "" for this machine.
        use_sudo: whether commands there go through sudo.

    Raises:
        ConfigError: the host knows of no session, its tuner is alive, or the header is not one of spectune's.
    """
    expected = _expected(service, service.facts())
    place = expected.folder
    answer = service.host.run(("/bin/sh", "-c", host_scripts.HEADER, "spectune", place))
    if answer.status != 0:
        raise ConfigError(
            f"{service.described}: `an interrupted session has left its journal there` must hold, there is "
            "none: it was given back, or its host was restarted since (then its own settings are in force)."
        )
    signs, _, text = answer.stdout.partition("\n")
    where = f"{place}/header on {service.host.name}"
    header = read_header_text(text, where=where)
    check_foreign(header, expected, where)
    _check_silent(service.described, signs.split(), header)
    told: object = header.after_restore
    dropped = tuple(map(str, told)) if isinstance(told, tuple) else ()
    here = replace(header, id=f"{header.id}-adopted", ssh=ssh, use_sudo=use_sudo, after_restore=())
    if (path := folder / f"{here.id}.journal").exists():
        if read_header(path) != here:
            raise ConfigError(f"{where}: `its session is the one of {path}` must hold, it is another.")
        return Adopted(path=path, dropped=dropped)
    journal = Journal.begin(folder, here)
    journal.release()
    return Adopted(path=journal.path, dropped=dropped)


def _expected(service: SystemdService | DockerService, facts: HostFacts) -> ExpectedPlace:
    """What the header of this service's session must say."""
    if isinstance(service, DockerService):
        return ExpectedPlace(
            keeper="docker", unit=service.name, is_user=False, folder=service.folder(facts),
            drop_in=service.spare_name,
        )  # fmt: skip
    places = service.places(facts)
    return ExpectedPlace(
        keeper="systemd",
        unit=service.name.full,
        is_user=service.is_user,
        folder=places.folder,
        drop_in=f"{places.runtime}/{TRIAL_DROP_IN}",
        kept=places.kept,
    )


def _check_silent(described: str, signs: list[str], header: JournalHeader) -> None:
    """Raises ConfigError while the tuner gives signs of life; a watchdog is waited for later."""
    silence, timeout, token = (*signs, "", "", "")[:3]
    is_watchdog = token == f"watchdog-{header.token}"
    is_known = is_digits(silence.lstrip("-")) and is_digits(timeout)
    if not is_watchdog and is_known and int(silence) < int(timeout):
        raise ConfigError(
            f"{described}: `the tuner is gone` must hold, it gave a sign of life {int(silence) / 100:.0f} s "
            f"ago; stop it where it runs (study {header.study}), it gives the server back itself."
        )
