"""Takes up a session whose tuner ran on another machine and is gone, from its copy on the serving host."""

from dataclasses import replace
from pathlib import Path

from spectune.errors import ConfigError
from spectune.launch import host_scripts
from spectune.launch.docker_service import DockerService
from spectune.launch.journal import Journal, JournalHeader, read_header_text
from spectune.launch.systemd_service import SystemdService


def adopt(service: SystemdService | DockerService, folder: Path, *, ssh: str, use_sudo: bool) -> Path:
    """A journal in `folder` here for what the host knows of the session; `restore` finishes it.

    Args:
        service: the unit or container.
        folder: where journals lie on this machine.
        ssh: how the host is reached from here, "" for this machine.
        use_sudo: whether commands there go through sudo.

    Raises:
        ConfigError: the host knows of no session, or its tuner is alive.
    """
    facts = service.facts()
    place = service.folder(facts) if isinstance(service, DockerService) else service.places(facts).folder
    answer = service.host.run(("/bin/sh", "-c", host_scripts.HEADER, "spectune", place))
    if answer.status != 0:
        raise ConfigError(
            f"{service.described}: `an interrupted session has left its journal there` must hold, there is "
            "none: it was given back, or its host was restarted since (then its own settings are in force)."
        )
    signs, _, text = answer.stdout.partition("\n")
    header = read_header_text(text, where=f"{place}/header on {service.host.name}")
    _check_silent(service.described, signs.split(), header)
    here = replace(header, id=f"{header.id}-adopted", ssh=ssh, use_sudo=use_sudo)
    if (path := folder / f"{here.id}.journal").exists():
        return path
    journal = Journal.begin(folder, here)
    journal.release()
    return journal.path


def _check_silent(described: str, signs: list[str], header: JournalHeader) -> None:
    """Raises ConfigError while the tuner gives signs of life; a watchdog is waited for later."""
    silence, timeout, token = (*signs, "", "", "")[:3]
    is_watchdog = token == f"watchdog-{header.token}"
    is_known = silence.lstrip("-").isdecimal() and timeout.isdecimal()
    if not is_watchdog and is_known and int(silence) < int(timeout):
        raise ConfigError(
            f"{described}: `the tuner is gone` must hold, it gave a sign of life {int(silence) / 100:.0f} s "
            f"ago; stop it where it runs (study {header.study}), it gives the server back itself."
        )
