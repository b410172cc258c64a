"""The words of `docker create` for a trial's container: the original's, with another command. Pure.

Same image (by its digest), environment (through a file, so that no process list shows it), mounts, ports,
devices, limits, network and labels. Its restart policy is `no`, so that a crash is seen as one, and it has no
health check. A setting of the original that is none of these and not docker's default is refused.
"""

from collections.abc import Callable, Iterator

from spectune.launch.container_text import TRIAL_LABEL, Container, JsonObject, is_own_network

_TEXT = {
    "IpcMode": "--ipc", "PidMode": "--pid", "UTSMode": "--uts", "UsernsMode": "--userns",
    "Runtime": "--runtime", "CgroupParent": "--cgroup-parent", "CpusetCpus": "--cpuset-cpus",
    "CpusetMems": "--cpuset-mems", "CgroupnsMode": "--cgroupns", "VolumeDriver": "--volume-driver",
}  # fmt: skip
_NUMBER = {
    "ShmSize": "--shm-size", "Memory": "--memory", "MemoryReservation": "--memory-reservation",
    "MemorySwap": "--memory-swap", "CpuShares": "--cpu-shares", "CpuPeriod": "--cpu-period",
    "CpuQuota": "--cpu-quota", "PidsLimit": "--pids-limit", "OomScoreAdj": "--oom-score-adj",
    "BlkioWeight": "--blkio-weight", "MemorySwappiness": "--memory-swappiness",
}  # fmt: skip
_SWITCH = {
    "Privileged": "--privileged", "ReadonlyRootfs": "--read-only", "Init": "--init",
    "OomKillDisable": "--oom-kill-disable",
}  # fmt: skip
_LIST = {
    "Binds": "--volume", "VolumesFrom": "--volumes-from", "CapAdd": "--cap-add", "CapDrop": "--cap-drop",
    "Dns": "--dns", "DnsOptions": "--dns-option", "DnsSearch": "--dns-search", "ExtraHosts": "--add-host",
    "GroupAdd": "--group-add", "SecurityOpt": "--security-opt", "DeviceCgroupRules": "--device-cgroup-rule",
}  # fmt: skip
_PAIRS = {"Sysctls": "--sysctl", "StorageOpt": "--storage-opt", "Annotations": "--annotation"}
_OTHERWISE = {  # written by functions of this module, or of no account to a container that soon ends
    "NetworkMode", "PortBindings", "RestartPolicy", "Mounts", "Tmpfs", "Devices", "DeviceRequests", "Ulimits",
    "LogConfig", "NanoCpus", "AutoRemove", "ContainerIDFile", "ConsoleSize", "MaskedPaths", "ReadonlyPaths",
    "Isolation", "KernelMemory", "KernelMemoryTCP", "Links", "PublishAllPorts",
}  # fmt: skip


def obstacle(container: Container) -> str:
    """Why the container cannot be put aside and replaced for a while, or ""."""
    host = container.host_config
    if host.is_set("AutoRemove"):
        return "it was started with --rm: docker removes it when it stops, so it could not be given back."
    if host.is_set("PublishAllPorts"):
        return "its ports are published at random (-P): publish them with -p."
    if host.is_set("Links"):
        return "it has links (--link), which follow the container: use a network instead."
    if dict(container.config.pairs("Labels")).get(TRIAL_LABEL):
        return "it is a trial's container of another spectune: run `spectune restore` where that one ran."
    known = {*_TEXT, *_NUMBER, *_SWITCH, *_LIST, *_PAIRS, *_OTHERWISE}
    strange = [key for key in host.values if key not in known and host.is_set(key)]
    if strange:
        return f"spectune cannot create one with the same HostConfig.{strange[0]}; remove that setting."
    lines = [name for name, value in container.environment if "\n" in value]
    return f"its variable {lines[0]} has several lines, which --env-file cannot hold." if lines else ""


def environment_text(container: Container) -> str:
    """The file for `--env-file`; holds secrets."""
    return "".join(f"{name}={value}\n" for name, value in container.environment)


def create_words(
    container: Container, argv: tuple[str, ...], *, env_file: str, token: str
) -> tuple[str, ...]:
    """The words after `docker create`.

    Args:
        container: the original.
        argv: what to run instead of its own command.
        env_file: where `environment_text` is on the host.
        token: whose trial it is, put on a label.
    """
    flags = (
        "--name", container.name, "--env-file", env_file, "--label", f"{TRIAL_LABEL}={token}",
        "--restart", "no", "--no-healthcheck",
    )  # fmt: skip
    parts: tuple[Callable[[Container], Iterator[str]], ...] = (
        _of_config, _of_host, _of_memory_places, _of_devices, _of_network, _of_log,
    )  # fmt: skip
    words = tuple(word for part in parts for word in part(container))
    return (*flags, *words, "--entrypoint", argv[0], container.inspected.text("Image"), *argv[1:])


def connect_words(container: Container) -> tuple[tuple[str, ...], ...]:
    """For each further network the words after `docker network connect`, the container's name left out."""
    return tuple(
        (*_in_network(container, network, "--alias"), name)
        for name, network in list(container.networks.items())[1:]
        if not is_own_network(name)
    )


def _of_config(container: Container) -> Iterator[str]:
    config = container.config
    for key, flag in (
        ("User", "--user"), ("WorkingDir", "--workdir"), ("StopSignal", "--stop-signal"),
        ("Domainname", "--domainname"),
    ):  # fmt: skip
        if config.text(key):
            yield from (flag, config.text(key))
    is_shared = container.host_config.text("NetworkMode").startswith(("container:", "host"))
    if config.text("Hostname") not in ("", container.id[:12]) and not is_shared:
        yield from ("--hostname", config.text("Hostname"))
    for name, value in config.pairs("Labels"):
        yield from ("--label", f"{name}={value}")
    if config.is_set("Tty"):
        yield "--tty"
    if config.is_set("OpenStdin"):
        yield "--interactive"


def _of_host(container: Container) -> Iterator[str]:
    host = container.host_config
    yield from (word for key, flag in _TEXT.items() if host.text(key) for word in (flag, host.text(key)))
    yield from (
        word for key, flag in _NUMBER.items() if host.is_set(key) for word in (flag, str(host.number(key)))
    )
    yield from (flag for key, flag in _SWITCH.items() if host.is_set(key))
    yield from (word for key, flag in _LIST.items() for text in host.texts(key) for word in (flag, text))
    yield from (
        word
        for key, flag in _PAIRS.items()
        for name, value in host.pairs(key)
        for word in (flag, f"{name}={value}")
    )
    if host.is_set("NanoCpus"):
        yield from ("--cpus", f"{host.number('NanoCpus') / 1e9:g}")
    for limit in host.children("Ulimits"):
        yield from ("--ulimit", f"{limit.text('Name')}={limit.number('Soft')}:{limit.number('Hard')}")


def _of_memory_places(container: Container) -> Iterator[str]:
    """Mounts, tmpfs, and the volumes it got without a name, which go by the name docker gave them."""
    host = container.host_config
    for mount in host.children("Mounts"):
        yield from (
            "--mount",
            _mount(mount, source=mount.text("Source"), is_read_only=mount.is_set("ReadOnly")),
        )
    for path, options in host.pairs("Tmpfs"):
        yield from ("--tmpfs", f"{path}:{options}" if options else path)
    named = {bind.split(":")[1] for bind in host.texts("Binds") if ":" in bind}
    named |= {mount.text("Target") for mount in host.children("Mounts")}
    for mount in container.inspected.children("Mounts"):
        if mount.text("Type") == "volume" and mount.text("Destination") not in named:
            is_read_only = mount.values.get("RW") is False
            yield from ("--mount", _mount(mount, source=mount.text("Name"), is_read_only=is_read_only))


def _mount(mount: JsonObject, *, source: str, is_read_only: bool) -> str:
    target = mount.text("Target") or mount.text("Destination")
    parts = [f"type={mount.text('Type')}", *([f"src={source}"] if source else []), f"dst={target}"]
    propagation = mount.child("BindOptions").text("Propagation")
    parts += [f"bind-propagation={propagation}"] if propagation else []
    size = mount.child("TmpfsOptions").number("SizeBytes")
    parts += [f"tmpfs-size={size}"] if size else []
    return ",".join([*parts, "readonly"] if is_read_only else parts)


def _of_devices(container: Container) -> Iterator[str]:
    host = container.host_config
    for device in host.children("Devices"):
        parts = [device.text(key) for key in ("PathOnHost", "PathInContainer", "CgroupPermissions")]
        yield from ("--device", ":".join(part for part in parts if part))
    for request in host.children("DeviceRequests"):
        yield from ("--gpus", _gpus(request))


def _gpus(request: JsonObject) -> str:
    """The value of `--gpus`: a CSV of which devices and what they may do."""
    ids, count = request.texts("DeviceIDs"), request.number("Count")
    which = f'"device={",".join(ids)}"' if ids else "count=all" if count == -1 else f"count={count}"
    groups = request.values.get("Capabilities")
    named = groups[0] if isinstance(groups, list) and groups and isinstance(groups[0], list) else []
    more = [str(capability) for capability in named if capability != "gpu"]
    parts = [which, *([f"driver={request.text('Driver')}"] if request.text("Driver") else [])]
    return ",".join([*parts, f'"capabilities={",".join(more)}"'] if more else parts)


def _of_network(container: Container) -> Iterator[str]:
    host = container.host_config
    mode = host.text("NetworkMode") or "default"
    yield from ("--network", mode)
    if mode in container.networks and not is_own_network(mode):
        yield from _in_network(container, container.networks[mode], "--network-alias")
    for port in host.child("PortBindings").values:
        for binding in host.child("PortBindings").children(port):
            address = binding.text("HostIp")
            address = f"[{address}]" if ":" in address else address
            published = ":".join([*([address] if address else []), binding.text("HostPort"), port])
            yield from ("--publish", published)


def _in_network(container: Container, network: JsonObject, flag: str) -> tuple[str, ...]:
    aliases = [name for name in network.texts("Aliases") if name not in (container.id[:12], container.name)]
    words = [word for alias in aliases for word in (flag, alias)]
    address = network.child("IPAMConfig").text("IPv4Address")
    return (*words, *(("--ip", address) if address else ()))


def _of_log(container: Container) -> Iterator[str]:
    log = container.host_config.child("LogConfig")
    if log.text("Type"):
        yield from ("--log-driver", log.text("Type"))
    for name, value in log.pairs("Config"):
        yield from ("--log-opt", f"{name}={value}")
