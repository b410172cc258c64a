import json

import pytest

from spectune.launch.container_text import Container, read_container
from spectune.launch.container_words import connect_words, create_words, environment_text, obstacle
from spectune.testing.fake_docker import inspected

SERVE = ("python3", "-m", "sglang.launch_server", "--model-path", "/models/q")
HOST = {
    "Binds": ["/models:/models:ro", "cache:/data/cache"],
    "PortBindings": {"30000/tcp": [{"HostIp": "", "HostPort": "30001"}, {"HostIp": "::1", "HostPort": "7"}]},
    "RestartPolicy": {"Name": "unless-stopped", "MaximumRetryCount": 0},
    "IpcMode": "host",
    "ShmSize": 34359738368,
    "NetworkMode": "serving",
    "DeviceRequests": [
        {"Driver": "", "Count": 0, "DeviceIDs": ["0", "2"], "Capabilities": [["gpu"]], "Options": {}}
    ],
    "Devices": [{"PathOnHost": "/dev/ib0", "PathInContainer": "/dev/ib0", "CgroupPermissions": "rwm"}],
    "Ulimits": [{"Name": "memlock", "Soft": -1, "Hard": -1}],
    "CapAdd": ["SYS_PTRACE"],
    "Privileged": False,
    "NanoCpus": 2_500_000_000,
    "Mounts": [{"Type": "bind", "Source": "/etc/cfg", "Target": "/cfg", "ReadOnly": True}],
    "Tmpfs": {"/scratch": "size=1g"},
    "LogConfig": {"Type": "json-file", "Config": {"max-size": "10m"}},
}
NETWORKS = {
    "metrics": {"Aliases": ["llm-m"], "IPAMConfig": None},
    "serving": {"Aliases": ["llm", "qwen", "ID"], "IPAMConfig": {"IPv4Address": "10.5.0.9"}},
}


def container(host: dict[str, object] | None = None, **config: object) -> Container:
    labels = {"com.docker.compose.service": "llm", "traefik.enable": "true"}
    definition = inspected(
        "llm", SERVE, env=("HF_TOKEN=hf_abc", "A=b c"), labels=labels, host={**HOST, **(host or {})}
    )
    networks = json.loads(json.dumps(NETWORKS).replace('"ID"', json.dumps(definition["Id"][:12])))
    definition["NetworkSettings"] = {"Ports": {}, "Networks": networks}
    definition["Mounts"] = [
        {"Type": "bind", "Source": "/models", "Destination": "/models", "RW": False},
        {"Type": "volume", "Name": "cache", "Destination": "/data/cache", "RW": True},
        {"Type": "volume", "Name": "f00d", "Destination": "/data", "RW": True},
    ]
    definition["Config"] = {**definition["Config"], **config}
    return read_container(json.dumps([definition]))


def words_of(found: Container) -> tuple[str, ...]:
    argv = (*SERVE, "--speculative-algorithm", "EAGLE3")
    return create_words(found, argv, env_file="/run/spectune/x/env", token="t0k")


def values(words: tuple[str, ...], flag: str) -> list[str]:
    return [words[place + 1] for place, word in enumerate(words) if word == flag]


def test_a_copy_has_what_the_original_has_and_another_command() -> None:
    words = words_of(container())
    assert words[-9:] == (
        "--entrypoint", "python3", f"sha256:{'ab' * 32}", "-m", "sglang.launch_server", "--model-path",
        "/models/q", "--speculative-algorithm", "EAGLE3",
    )  # fmt: skip
    assert values(words, "--name") == ["llm"]
    assert values(words, "--volume") == ["/models:/models:ro", "cache:/data/cache"]
    assert values(words, "--mount") == [
        "type=bind,src=/etc/cfg,dst=/cfg,readonly", "type=volume,src=f00d,dst=/data",
    ]  # fmt: skip
    assert values(words, "--tmpfs") == ["/scratch:size=1g"]
    assert values(words, "--publish") == ["30001:30000/tcp", "[::1]:7:30000/tcp"]
    assert values(words, "--gpus") == ['"device=0,2"']
    assert values(words, "--device") == ["/dev/ib0:/dev/ib0:rwm"]
    assert values(words, "--ulimit") == ["memlock=-1:-1"]
    assert values(words, "--cap-add") == ["SYS_PTRACE"]
    assert values(words, "--cpus") == ["2.5"]
    assert (values(words, "--ipc"), values(words, "--shm-size")) == (["host"], ["34359738368"])
    assert (values(words, "--log-driver"), values(words, "--log-opt")) == (["json-file"], ["max-size=10m"])
    assert "--privileged" not in words


def test_a_crash_of_a_copy_is_seen_as_one_and_it_bears_a_label() -> None:
    words = words_of(container())
    assert values(words, "--restart") == ["no"]
    assert values(words, "--label") == [
        "spectune.trial=t0k", "com.docker.compose.service=llm", "traefik.enable=true",
    ]  # fmt: skip


def test_secrets_of_the_environment_are_in_the_file_only() -> None:
    found = container()
    assert "hf_abc" not in " ".join(words_of(found))
    assert environment_text(found) == "HF_TOKEN=hf_abc\nA=b c\n"
    assert values(words_of(found), "--env-file") == ["/run/spectune/x/env"]


def test_it_joins_the_same_networks_under_the_same_names() -> None:
    found = container()
    words = words_of(found)
    assert values(words, "--network") == ["serving"]
    assert values(words, "--network-alias") == ["qwen"]
    assert values(words, "--ip") == ["10.5.0.9"]
    assert connect_words(found) == (("--alias", "llm-m", "metrics"),)


@pytest.mark.parametrize(
    ("request_", "flag"),
    [
        ({"Count": -1, "DeviceIDs": None, "Capabilities": [["gpu"]]}, "count=all"),
        ({"Count": 2, "DeviceIDs": None, "Capabilities": [["gpu"]]}, "count=2"),
        (
            {"Driver": "nvidia", "Count": -1, "Capabilities": [["gpu", "utility"]]},
            'count=all,driver=nvidia,"capabilities=utility"',
        ),
    ],
)
def test_gpus_are_asked_for_as_before(request_: dict[str, object], flag: str) -> None:
    assert values(words_of(container({"DeviceRequests": [request_]})), "--gpus") == [flag]


def test_the_users_choices_inside_are_kept() -> None:
    words = words_of(container(User="1000:1000", WorkingDir="/app", Tty=True, Hostname="gpu-box"))
    assert (values(words, "--user"), values(words, "--workdir")) == (["1000:1000"], ["/app"])
    assert values(words, "--hostname") == ["gpu-box"]
    assert "--tty" in words
    assert not values(words_of(container()), "--hostname")  # its own id, which a copy gets anew


@pytest.mark.parametrize(
    ("host", "part"),
    [
        ({"AutoRemove": True}, "--rm"),
        ({"PublishAllPorts": True}, "-P"),
        ({"Links": ["db:db"]}, "--link"),
        ({"IOMaximumIOps": 500}, "HostConfig.IOMaximumIOps"),
        ({"SomethingNew": "x"}, "HostConfig.SomethingNew"),
    ],
)
def test_what_cannot_be_copied_exactly_is_refused(host: dict[str, object], part: str) -> None:
    assert part in obstacle(container(host))


def test_what_cannot_go_into_a_file_or_is_ours_already_is_refused() -> None:
    assert obstacle(container()) == ""
    assert "several lines" in obstacle(container(Env=["KEY=a\nb"]))
    assert "spectune restore" in obstacle(container(Labels={"spectune.trial": "x"}))
