"""A stand-in for the `docker` command: containers are processes of this machine, defined by JSON files.

    FAKE_DOCKER=FOLDER python fake_docker.py inspect --type container -- NAME

It knows the commands and flags that spectune uses, as docker documents them, and refuses every other. It
shows what is asked of docker and in which order (`calls` in the folder), not that docker does the same.
"""

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

Definition = dict[str, Any]  # the JSON of docker inspect
FOLDER = Path(os.environ.get("FAKE_DOCKER", "."))
_SWITCHES = {"--no-healthcheck", "--privileged", "--read-only", "--init", "--tty", "--interactive"}
_DEFAULT_HOST_CONFIG: dict[str, object] = {
    "Binds": None, "ContainerIDFile": "", "LogConfig": {"Type": "json-file", "Config": {}},
    "NetworkMode": "bridge", "PortBindings": {}, "RestartPolicy": {"Name": "no", "MaximumRetryCount": 0},
    "AutoRemove": False, "VolumeDriver": "", "VolumesFrom": None, "ConsoleSize": [0, 0], "CapAdd": None,
    "CapDrop": None, "CgroupnsMode": "private", "Dns": [], "DnsOptions": [], "DnsSearch": [],
    "ExtraHosts": None, "GroupAdd": None, "IpcMode": "private", "Cgroup": "", "Links": None, "OomScoreAdj": 0,
    "PidMode": "", "Privileged": False, "PublishAllPorts": False, "ReadonlyRootfs": False,
    "SecurityOpt": None, "UTSMode": "", "UsernsMode": "", "ShmSize": 67108864, "Runtime": "runc",
    "Isolation": "", "CpuShares": 0, "Memory": 0, "NanoCpus": 0, "CgroupParent": "", "BlkioWeight": 0,
    "BlkioWeightDevice": [], "CpuPeriod": 0, "CpuQuota": 0, "CpusetCpus": "", "CpusetMems": "", "Devices": [],
    "DeviceCgroupRules": None, "DeviceRequests": None, "MemoryReservation": 0, "MemorySwap": 0,
    "MemorySwappiness": None, "OomKillDisable": None, "PidsLimit": None, "Ulimits": [], "CpuCount": 0,
    "CpuPercent": 0, "IOMaximumIOps": 0, "IOMaximumBandwidth": 0,
    "MaskedPaths": ["/proc/acpi", "/proc/kcore"], "ReadonlyPaths": ["/proc/bus", "/proc/sys"],
}  # fmt: skip


def inspected(
    name: str,
    argv: tuple[str, ...],
    *,
    env: tuple[str, ...] = (),
    labels: dict[str, str] | None = None,
    host: dict[str, object] | None = None,
) -> Definition:
    """What `docker inspect` says of a container, by the fields that docker documents."""
    own = secrets.token_hex(32)
    return {
        "Id": own,
        "Created": "2026-11-29T20:00:00.0Z",
        "Path": argv[0],
        "Args": list(argv[1:]),
        "State": {"Status": "created", "Running": False, "Pid": 0, "ExitCode": 0, "StartedAt": ""},
        "Image": f"sha256:{'ab' * 32}",
        "Name": f"/{name}",
        "RestartCount": 0,
        "HostConfig": {**_DEFAULT_HOST_CONFIG, **(host or {})},
        "Mounts": [],
        "Config": {
            "Hostname": own[:12], "Domainname": "", "User": "", "Tty": False, "OpenStdin": False,
            "Env": list(env), "Cmd": list(argv[1:]), "Image": "engine/server:v1", "Volumes": None,
            "WorkingDir": "", "Entrypoint": [argv[0]], "Labels": labels or {},
        },
        "NetworkSettings": {"Ports": {}, "Networks": {}},
    }  # fmt: skip


def add(folder: Path, definition: Definition) -> None:
    """A container that is there from the beginning."""
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / f"{definition['Id']}.json", json.dumps(definition))


def main(words: list[str]) -> int:
    """Runs one docker command."""
    with (FOLDER / "calls").open("a") as calls:
        calls.write(json.dumps(words) + "\n")
    commands: dict[str, Callable[[list[str]], int]] = {
        "version": _version, "inspect": _inspect, "stop": _stop, "rename": _rename, "rm": _rm,
        "create": _create, "start": _start, "logs": _logs, "cp": _cp, "compose": _compose,
        "network": _network, "top": _top, "_run": _run,
    }  # fmt: skip
    if not words or words[0] not in commands:
        return _fail(f"unknown docker command {words[:1]}")
    return commands[words[0]](words[1:])


def _version(words: list[str]) -> int:
    del words
    print("28.0.0")
    return int((FOLDER / "no-daemon").exists())


def _inspect(words: list[str]) -> int:
    found = _find(words[-1])
    if words[:2] != ["--type", "container"] or found is None:
        return _fail(f"Error: No such container: {words[-1]}")
    found = _now(found)
    state, config = found["State"], found["Config"]
    match words[3] if words[2] == "--format" else "":
        case "":
            print(json.dumps([found]))
        case "{{.Id}}":
            print(found["Id"])
        case "{{.State.Running}} {{.State.ExitCode}}":
            print(str(state["Running"]).lower(), state["ExitCode"])
        case '{{index .Config.Labels "spectune.trial"}}':
            print(config["Labels"].get("spectune.trial", ""))
        case other:
            return _fail(f"template {other} is not known here")
    return 0


def _stop(words: list[str]) -> int:
    assert words[0] == "-t"
    found = _find(words[-1])
    if found is None:
        return _fail(f"Error: No such container: {words[-1]}")
    give_up_s = time.monotonic() + float(words[1])
    _signal(found, signal.SIGTERM)
    while _now(found)["State"]["Running"]:
        if time.monotonic() > give_up_s:
            _signal(found, signal.SIGKILL)
        time.sleep(0.02)
    return 0


def _rename(words: list[str]) -> int:
    found = _find(words[0])
    if found is None or _find(words[1]) is not None:
        return _fail(f"Error when renaming {words[0]} to {words[1]}")
    found["Name"] = f"/{words[1]}"
    _write(FOLDER / f"{found['Id']}.json", json.dumps(found))
    return 0


def _rm(words: list[str]) -> int:
    assert words[:2] == ["-f", "--"]
    found = _find(words[2])
    if found is None:
        return 0
    _signal(found, signal.SIGKILL)
    while _now(found)["State"]["Running"]:
        time.sleep(0.02)
    for file in FOLDER.glob(f"{found['Id']}.*"):
        file.unlink()
    return 0


def _create(words: list[str]) -> int:
    flags: list[tuple[str, str]] = []
    while words and words[0].startswith("--"):
        flag = words.pop(0)
        flags.append((flag, "" if flag in _SWITCHES else words.pop(0)))
    last = dict(flags)
    if _find(last["--name"]) is not None:
        return _fail(f'Conflict. The container name "/{last["--name"]}" is already in use')
    env = Path(last["--env-file"]).read_text().splitlines()
    labels = dict(value.split("=", 1) for flag, value in flags if flag == "--label")
    argv = (last["--entrypoint"], *words[1:])
    definition = inspected(last["--name"], argv, env=tuple(env), labels=labels)
    definition["Created with"] = flags
    if last.get("--network") == "host":
        definition["HostConfig"] = {**_DEFAULT_HOST_CONFIG, "NetworkMode": "host"}
    ports = [value.split(":") for flag, value in flags if flag == "--publish"]
    published = {port[-1]: [{"HostIp": "0.0.0.0", "HostPort": port[-2]}] for port in ports}  # noqa: S104
    definition["NetworkSettings"] = {"Ports": published, "Networks": {}}
    add(FOLDER, definition)
    print(definition["Id"])
    return 0


def _start(words: list[str]) -> int:
    found = _find(words[-1])
    if found is None:
        return _fail(f"Error: No such container: {words[-1]}")
    if (FOLDER / "no-start").exists():
        return _fail("Error response from daemon: failed to create task")
    own = FOLDER / found["Id"]
    if _now(found)["State"]["Running"]:
        return 0
    own.with_suffix(".exit").unlink(missing_ok=True)
    own.with_suffix(".pid").unlink(missing_ok=True)
    with own.with_suffix(".log").open("ab") as log:
        subprocess.Popen(
            [sys.executable, __file__, "_run", found["Id"]],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    while not own.with_suffix(".pid").exists():
        time.sleep(0.01)
    return 0


def _run(words: list[str]) -> int:
    """The container's life: its process as a child, its exit code in a file."""
    found = _find(words[0])
    assert found is not None
    own, config = FOLDER / words[0], found["Config"]
    env = dict(entry.split("=", 1) for entry in config["Env"])
    process = subprocess.Popen(
        [*config["Entrypoint"], *config["Cmd"]], env={**os.environ, **env}, start_new_session=True
    )
    _write(own.with_suffix(".pid"), f"{process.pid} {time.time()}")
    code = process.wait()
    with suppress(ProcessLookupError):  # a container ends with its first process
        os.killpg(process.pid, signal.SIGKILL)
    _write(own.with_suffix(".exit"), str(128 - code if code < 0 else code))
    return 0


def _logs(words: list[str]) -> int:
    found = _find(words[-1])
    if found is None:
        return _fail(f"Error: No such container: {words[-1]}")
    log = FOLDER / f"{found['Id']}.log"
    print(log.read_text() if log.exists() else "", end="")
    return 0


def _top(words: list[str]) -> int:
    found = _find(words[0])
    state = {} if found is None else _now(found)["State"]
    if not state.get("Running"):
        return _fail(f"Error response from daemon: container {words[0]} is not running")
    print("PID")
    return subprocess.run(["/bin/ps", "-o", "pid=", "-s", str(state["Pid"])], check=False).returncode


def _cp(words: list[str]) -> int:
    name, _, path = words[1].partition(":")
    found = _find(name)
    if found is None:
        return _fail(f"Error: No such container: {name}")
    shutil.copy(words[0], FOLDER / f"{found['Id']}.{Path(path).name}")
    return 0


def _compose(words: list[str]) -> int:
    for found in _all():
        if found["Config"]["Labels"].get("com.docker.compose.service") == words[-1]:
            print(found["Id"])
    return 0


def _network(words: list[str]) -> int:
    return 0 if words[0] == "connect" else _fail("only connect is known here")


def _fail(text: str) -> int:
    print(text, file=sys.stderr)
    return 1


def _all() -> list[Definition]:
    found = []
    for path in sorted(FOLDER.glob("*.json")):
        if len(path.stem) == 64:
            with suppress(FileNotFoundError):
                found.append(json.loads(path.read_text()))
    return found


def _find(name: str) -> Definition | None:
    for found in _all():
        if name in (str(found["Name"]).removeprefix("/"), found["Id"]):
            return found
    return None


def _now(found: Definition) -> Definition:
    """The container with the state of its process."""
    own = FOLDER / str(found["Id"])
    if not own.with_suffix(".pid").exists():
        return found
    pid, started = own.with_suffix(".pid").read_text().split()
    code = own.with_suffix(".exit").read_text() if own.with_suffix(".exit").exists() else ""
    state = {
        "Status": "exited" if code else "running", "Running": not code, "Pid": 0 if code else int(pid),
        "ExitCode": int(code or 0), "StartedAt": started,
    }  # fmt: skip
    return {**found, "State": state}


def _signal(found: Definition, number: signal.Signals) -> None:
    state = _now(found)["State"]
    if state["Running"]:
        with suppress(ProcessLookupError):
            os.killpg(state["Pid"], number)


def _write(path: Path, text: str) -> None:
    part = path.with_name(f".{path.name}.{os.getpid()}")
    part.write_text(text)
    part.replace(path)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
