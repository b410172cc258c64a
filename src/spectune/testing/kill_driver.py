"""A tuner in small: lease, trials on a stand-in, give back; killed, or cut off, at a chosen moment.

Reads one JSON job a line from stdin and answers one JSON line each; every job is a process of its own,
forked from this one, so that none waits for an interpreter to start. A job's moments are numbered as they
come: after every line of the journal and after every command that changes the host.
"""

import json
import os
import signal
import subprocess
import sys
import time
import traceback
from dataclasses import replace
from functools import partial
from pathlib import Path

from spectune.clock import SystemClock
from spectune.domain.command import HttpRequest
from spectune.domain.endpoint import Endpoint
from spectune.errors import LaunchError, ServerUnreachable, SpectuneError
from spectune.launch import host_scripts
from spectune.launch.give_back import AS_APPLIED, AS_BEFORE
from spectune.launch.host import Host, HostAnswer
from spectune.launch.http_probe import fetch
from spectune.launch.journal import Journal
from spectune.launch.launcher import RunningServer
from spectune.launch.local_host import LocalHost
from spectune.launch.persistent import apply_change, change_to, is_committed
from spectune.launch.service_session import (
    ServiceSession,
    SessionTerms,
    finish_session,
    new_header,
    open_session,
)
from spectune.launch.ssh_host import SshHost
from spectune.launch.systemd_service import SystemdService
from spectune.launch.unit_name import UnitName

CLOCK = SystemClock()
ROOT_REQUEST = HttpRequest(method="GET", path="/")
CHANGES = {
    getattr(host_scripts, name)
    for name in ("ACQUIRE", "WATCH", "DROP_IN", "FILE", "RELOAD", "START", "STOP", "UNDO", "FINISH",
                 "PERSIST", "RESTART", "COMMIT")
}  # fmt: skip


class Job:
    """What to do, and the moments that have passed."""

    def __init__(self, words: dict[str, object]) -> None:
        self.folder = Path(str(words["folder"]))
        self.unit = str(words["unit"])
        self.port = int(str(words["port"]))
        self.prefix = tuple(str(words["prefix"]).split())
        self.ssh_config = str(words.get("ssh_config", ""))
        self.is_user = bool(words.get("is_user", False))
        self.trials = int(str(words.get("trials", 1)))
        self.act_at = int(str(words.get("act_at", -1)))
        self.act = str(words.get("act", "kill-tuner"))
        self.timeout_s = float(str(words.get("timeout_s", 1.0)))
        self.sshd = int(str(words.get("sshd", 0)))
        self.moments: list[str] = []

    def host(self) -> Host:
        """How it reaches the unit."""
        return SshHost("gpu1", config=self.ssh_config) if self.ssh_config else LocalHost(prefix=self.prefix)

    def passed(self, moment: str) -> None:
        """Another moment; strikes when it is the one."""
        self.moments.append(moment)
        if len(self.moments) - 1 == self.act_at:
            self._strike()

    def _strike(self) -> None:
        match self.act:
            case "kill-tuner":
                os.kill(os.getpid(), signal.SIGKILL)
            case "cut-ssh":
                kill(children(self.sshd))
            case "ssh-down":
                below = children(self.sshd)
                os.kill(self.sshd, signal.SIGKILL)
                kill(below)
            case "kill-engine":
                words = [*self.prefix, "systemctl", "kill", "-s", "KILL", "--", self.unit]
                subprocess.run(words, check=False, capture_output=True, stdin=subprocess.DEVNULL)
            case _:
                raise AssertionError(self.act)


class TrapJournal(Journal):
    """A journal whose lines are moments."""

    job: Job

    def _append(self, value: dict[str, object]) -> None:
        super()._append(value)
        self.job.passed(f"journal {value.get('step', 'begin')}")


class TrapHost:
    """A host whose changes are moments."""

    def __init__(self, host: Host, job: Job) -> None:
        self._host, self._job = host, job
        self.name, self.is_local = host.name, host.is_local
        self.reach, self.close = host.reach, host.close

    def run(self, argv: tuple[str, ...], *, stdin: str = "", timeout_s: float = 60.0) -> HostAnswer:
        """Passes it on."""
        answer = self._host.run(argv, stdin=stdin, timeout_s=timeout_s)
        if argv[:2] == ("/bin/sh", "-c") and argv[2] in CHANGES:
            name = next(name for name in dir(host_scripts) if getattr(host_scripts, name) == argv[2])
            self._job.passed(f"changed {name.lower()}")
        return answer


def ask(endpoint: Endpoint, within_s: float = 10.0) -> dict[str, object]:
    """The stand-in's answer."""
    give_up_s = time.monotonic() + within_s
    while True:
        try:
            found = json.loads(fetch(endpoint, ROOT_REQUEST, timeout_s=2.0).body)
        except ServerUnreachable:
            if time.monotonic() > give_up_s:
                raise
            time.sleep(0.02)
        else:
            assert isinstance(found, dict)
            return found


def measure(server: RunningServer, job: Job, trial: int) -> None:
    """What a level does: an answer, kept durably at once."""
    while True:
        if server.exit_status() is not None:
            return  # a crashed engine is a result
        try:
            found = ask(server.endpoint, 0.1)
        except ServerUnreachable:
            continue
        break
    with (job.folder / "measured").open("a") as kept:
        kept.write(json.dumps({"trial": trial, "argv": found["argv"]}) + "\n")
        kept.flush()
        os.fsync(kept.fileno())
    job.passed(f"measured {trial}")


def tune(job: Job) -> str:
    """A whole session; what the proof said."""
    host = TrapHost(job.host(), job)
    service = SystemdService(host, UnitName.parse(job.unit), is_user=job.is_user)
    unit = service.unit()
    endpoint = Endpoint(host="127.0.0.1", port=job.port)
    before = json.dumps(ask(host.reach(endpoint))["argv"]) if unit.active_state == "active" else ""
    TrapJournal.job = job
    terms = SessionTerms(
        kind="tune", study="s", ssh="gpu1" if job.ssh_config else "", use_sudo=False, engine="stand-in",
        before=before, orphan_timeout_s=job.timeout_s,
    )  # fmt: skip
    journal = TrapJournal.begin(job.folder, new_header(service, unit, terms))
    session = open_session(service, unit, journal, CLOCK)
    try:
        _trials(session, job, endpoint)
    finally:
        try:
            told = session.give_back(lambda: prove(host, endpoint, before))
        finally:
            host.close()
    return told


def apply(job: Job) -> str:
    """Puts `--applied` behind the unit's arguments for good."""
    host = TrapHost(job.host(), job)
    service = SystemdService(host, UnitName.parse(job.unit), is_user=job.is_user)
    unit = service.unit()
    endpoint = Endpoint(host="127.0.0.1", port=job.port)
    before = json.dumps(ask(host.reach(endpoint))["argv"])
    TrapJournal.job = job
    terms = SessionTerms(
        kind="apply", study="s", ssh="", use_sudo=False, engine="stand-in", before=before,
        orphan_timeout_s=job.timeout_s,
    )  # fmt: skip
    journal = TrapJournal.begin(job.folder, new_header(service, unit, terms, is_persistent=True))
    session = open_session(service, unit, journal, CLOCK)
    applied = replace(unit.command, argv=(*unit.command.argv, "--applied"))
    change = change_to(service, unit.exec_line_for(applied))
    return apply_change(session, change, lambda: str(ask(endpoint)["argv"]), CLOCK)


def _trials(session: ServiceSession, job: Job, endpoint: Endpoint) -> None:
    launcher = session.launcher(job.folder / "logs")
    command = session.unit.command
    for trial in range(job.trials):
        changed = replace(command, argv=(*command.argv, "--trial", str(trial)))
        server = launcher.start(changed, endpoint, name=f"trial-{trial}", file_text="{}")
        try:
            measure(server, job, trial)
        finally:
            server.stop()


def prove(host: Host, endpoint: Endpoint, before: str) -> str:
    """The stand-in runs with the arguments from before."""
    if not before:
        return "not running, as before"
    now = json.dumps(ask(host.reach(endpoint))["argv"])
    if now != before:
        raise LaunchError(f"`the same arguments` must hold, got {now}, before {before}")
    return f"as before: {now}"


def restore(job: Job) -> str:
    """What `spectune restore` does."""
    told = "nothing to restore"
    for path in sorted(job.folder.glob("*.journal")):
        journal = Journal.reopen(path)
        if journal is not None:
            host = job.host()
            before = journal.header.before
            endpoint = Endpoint(host="127.0.0.1", port=job.port)
            proof, outcome = partial(prove, host, endpoint, before), AS_BEFORE
            if is_committed(host, journal.header):
                proof, outcome = partial(prove, host, endpoint, ""), AS_APPLIED
            told = finish_session(host, journal, proof, CLOCK, outcome=outcome)
            host.close()
    return told


def children(pid: int) -> list[int]:
    """Processes started by it."""
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def kill(pids: list[int]) -> None:
    """SIGKILL to each."""
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def run_job(words: dict[str, object]) -> dict[str, object]:
    """Does it and tells how it ended."""
    job = Job(words)
    job.folder.mkdir(parents=True, exist_ok=True)
    do = {"restore": restore, "tune": tune, "apply": apply}[str(words["do"])]
    try:
        return {"told": do(job), "error": "", "moments": job.moments}
    except SpectuneError as error:
        return {"told": "", "error": f"{type(error).__name__}: {error}", "moments": job.moments}
    except Exception:  # noqa: BLE001  (told to whoever reads the answer)
        return {"told": "", "error": traceback.format_exc(), "moments": job.moments}


def main() -> None:
    """Forks a process per job."""
    for line in sys.stdin:
        words = json.loads(line)
        child = os.fork()
        if child == 0:
            result = run_job(words)
            sys.stdout.write(json.dumps({"id": words["id"], "signal": 0, **result}) + "\n")
            sys.stdout.flush()
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            print(json.dumps({"id": words["id"], "signal": os.WTERMSIG(status)}), flush=True)


if __name__ == "__main__":
    main()
