"""A service unit on a host, read: where its files are, what it runs, how it is. Changes nothing."""

import re
from dataclasses import dataclass, replace

from spectune.errors import ConfigError, LaunchError
from spectune.launch import host_scripts
from spectune.launch.host import Host, HostAnswer
from spectune.launch.journal import JournalHeader
from spectune.launch.systemd_unit import (
    SHOWN,
    Unit,
    read_environment_file,
    read_properties,
    read_unit,
    unit_digest,
)
from spectune.launch.unit_name import UnitName

TRIAL_DROP_IN = "zz-spectune-trial.conf"
PERSISTENT_DROP_IN = "zy-spectune.conf"
_STATE = "ActiveState,SubState,ExecMainCode,ExecMainStatus,MainPID,InvocationID,ControlGroup,Result,Job"
_KILLED = ("2", "3")  # CLD_KILLED, CLD_DUMPED


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """What a host says of itself.

    Attributes:
        uid: who runs the commands, sudo included.
        boot_id: of this boot.
        runtime: the user's runtime folder.
        config: the user's configuration folder.
        state: the user's state folder.
        systemd: its version; 0 where it is not told.
    """

    uid: int
    boot_id: str
    runtime: str
    config: str
    state: str
    systemd: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitPlaces:
    """Where things of a unit lie on its host.

    Attributes:
        folder: spectune's state, gone after a reboot.
        runtime: drop-ins that are gone after a reboot.
        persistent: drop-ins that stay.
        kept: what `apply` replaced.
    """

    folder: str
    runtime: str
    persistent: str
    kept: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitState:
    """How a unit is at one moment.

    Attributes:
        active: ActiveState.
        sub: SubState.
        exit_status: of its main process, negative for a signal; None where none ended.
        invocation: a new one for every start.
        control_group: its cgroup.
        has_job: whether systemd still has something to do for it.
    """

    active: str
    sub: str
    exit_status: int | None
    invocation: str
    control_group: str
    has_job: bool

    @property
    def is_down(self) -> bool:
        """No process of it is left and none is on its way."""
        return self.active in ("inactive", "failed") and not self.has_job


class SystemdService:
    """A unit of the system's or the user's own manager."""

    def __init__(self, host: Host, name: UnitName, *, is_user: bool = False) -> None:
        """Asks nothing yet."""
        self.host, self.name, self.is_user = host, name, is_user

    @property
    def described(self) -> str:
        """For messages."""
        return f"{self.name.full} on {self.host.name}"

    def facts(self) -> HostFacts:
        """The host's own word; raises ConfigError when units cannot be changed there."""
        answer = self.host.run(("/bin/sh", "-c", host_scripts.FACTS, "spectune", self._scope))
        found = read_properties(answer.stdout)
        values = dict(found)
        if answer.status != 0 or "uid" not in values:
            raise ConfigError(f"{self.host.name}: `commands run there` must hold, got: {answer.complaint}.")
        missing = [value for name, value in found if name == "missing"]
        if missing:
            raise ConfigError(f"{self.host.name}: `{missing[0]}` must be there, it is not.")
        if not self.is_user and values["uid"] != "0":
            raise ConfigError(
                f"{self.described}: `root changes system units` must hold, uid is {values['uid']}; log in as "
                "root, give --sudo, or --user for a unit of your own manager."
            )
        return HostFacts(
            uid=int(values["uid"]),
            boot_id=values["boot_id"],
            runtime=values["runtime"],
            config=values["config"],
            state=values["state"],
            systemd=_leading_number(values.get("systemd", "")),
        )

    def places(self, facts: HostFacts) -> UnitPlaces:
        """Where things lie."""
        key, drop_ins = self.name.key, f"{self.name.full}.d"
        if self.is_user:
            return UnitPlaces(
                folder=f"{facts.runtime}/spectune/{key}",
                runtime=f"{facts.runtime}/systemd/user/{drop_ins}",
                persistent=f"{facts.config}/systemd/user/{drop_ins}",
                kept=f"{facts.state}/spectune/{key}",
            )
        return UnitPlaces(
            folder=f"/run/spectune/{key}",
            runtime=f"/run/systemd/system/{drop_ins}",
            persistent=f"/etc/systemd/system/{drop_ins}",
            kept=f"/var/lib/spectune/{key}",
        )

    def unit(self) -> Unit:
        """The unit with its drop-ins and environment files; raises ConfigError."""
        shown = self.systemctl("show", "-p", SHOWN, "--", self.name.full)
        cat = self.systemctl("cat", "--no-pager", "--", self.name.full)
        unit = read_unit(self.name, shown.stdout, cat.stdout)
        environment = dict(unit.environment)
        for written in unit.environment_files:
            environment.update(self._environment_file(written))
        return replace(unit, environment=tuple(environment.items()))

    def state(self) -> UnitState:
        """How it is now."""
        answer = self.systemctl("show", "-p", _STATE, "--", self.name.full)
        values = dict(read_properties(answer.stdout))
        if answer.status != 0 or "ActiveState" not in values:
            raise LaunchError(f"{self.described}: `systemctl show` must answer, got: {answer.complaint}.")
        code, status = values.get("ExecMainCode", "0"), int(values.get("ExecMainStatus", "0") or 0)
        return UnitState(
            active=values["ActiveState"],
            sub=values.get("SubState", ""),
            exit_status=None if code == "0" else -status if code in _KILLED else status,
            invocation=values.get("InvocationID", ""),
            control_group=values.get("ControlGroup", ""),
            has_job=bool(values.get("Job")),
        )

    def check_same(self, header: JournalHeader) -> None:
        """Raises LaunchError where ExecStart, environment or drop-ins are not those from before."""
        unit = self.unit()
        if unit_digest(unit, header.token) != header.digest:
            raise LaunchError(
                f"`ExecStart, environment and drop-ins are those from before` must hold, they differ now "
                f"(drop-ins: {', '.join(unit.drop_ins) or 'none'}); did somebody edit the unit meanwhile?"
            )

    def active_dependents(self, unit: Unit) -> tuple[str, ...]:
        """Units that run now and would be stopped together with it."""
        names = [name for name in unit.dependents if name != self.name.full]
        return tuple(name for name in names if self.systemctl("is-active", "--quiet", "--", name).status == 0)

    def systemctl(self, *words: str) -> HostAnswer:
        """Asks systemctl."""
        return self._read("systemctl", *(("--user",) if self.is_user else ()), *words)

    def journalctl(self, *words: str) -> HostAnswer:
        """Asks for the unit's log."""
        which = ("--user-unit",) if self.is_user else ("--unit",)
        return self._read("journalctl", "--no-pager", "--quiet", *which, self.name.full, *words)

    def process_ids(self, control_group: str) -> tuple[int, ...]:
        """Its processes, as the host numbers them."""
        if not control_group:
            return ()
        roots = ("/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/systemd")
        files = tuple(f"{root}{control_group}/cgroup.procs" for root in roots)
        return tuple(sorted({int(word) for word in self.host.run(("cat", "--", *files)).stdout.split()}))

    @property
    def _scope(self) -> str:
        return "user" if self.is_user else "system"

    def _environment_file(self, written: str) -> dict[str, str]:
        path = written.removeprefix("-")
        answer = self.host.run(("cat", "--", path))
        if answer.status == 0:
            return read_environment_file(answer.stdout)
        if written.startswith("-"):
            return {}
        raise ConfigError(
            f"{self.described}: `EnvironmentFile={path} can be read` must hold, got: {answer.complaint}."
        )

    def _read(self, *words: str) -> HostAnswer:
        return self.host.run(("/bin/sh", "-c", host_scripts.READ, "spectune", *words))


def _leading_number(text: str) -> int:
    """Of a version such as "252" or "256~rc3"; 0 where there is none."""
    found = re.match(r"[0-9]{1,6}", text)
    return int(found[0]) if found else 0
