import json

import pytest

from spectune.domain.endpoint import Endpoint
from spectune.errors import ConfigError, ProtocolError
from spectune.launch.container_text import Container, check_container_name, masked_summary, read_container
from spectune.testing.fake_docker import inspected

SERVE = ("vllm", "serve", "m", "--host", "0.0.0.0", "--api-key", "s3cret")
INSIDE = Endpoint(host="0.0.0.0", port=8000, api_key="s3cret")


def container(**changes: object) -> Container:
    """A container by docker's documented fields; `changes` replace whole top-level ones."""
    definition = inspected("llm", SERVE, env=("PATH=/bin", "HF_TOKEN=hf_abc", "EMPTY="))
    return read_container(json.dumps([{**definition, **changes}]))


def test_the_command_is_entry_point_and_arguments_with_secrets_along() -> None:
    command = container().command
    assert command.argv == SERVE
    assert command.env == (("HF_TOKEN", "hf_abc"),)
    assert "s3cret" not in command.printable
    assert "hf_abc" not in command.printable
    assert dict(container().environment)["EMPTY"] == ""


def test_what_is_shown_has_names_only() -> None:
    shown = masked_summary(container())
    assert "HF_TOKEN=****" in shown
    assert "hf_abc" not in shown
    assert "engine/server:v1" in shown


def test_a_published_port_leads_to_it() -> None:
    ports = {"8000/tcp": [{"HostIp": "0.0.0.0", "HostPort": "8001"}, {"HostIp": "::", "HostPort": "8001"}]}
    found = container(NetworkSettings={"Ports": ports, "Networks": {}}).reached_at(INSIDE)
    assert found == Endpoint(host="127.0.0.1", port=8001, api_key="s3cret")
    only = {"8000/tcp": [{"HostIp": "10.0.0.5", "HostPort": "9000"}]}
    assert container(NetworkSettings={"Ports": only}).reached_at(INSIDE).host == "10.0.0.5"


def test_the_hosts_network_and_a_bridge_address_lead_to_it_too() -> None:
    definition = inspected("llm", SERVE, host={"NetworkMode": "host"})
    assert read_container(json.dumps([definition])).reached_at(INSIDE) == INSIDE
    networks = {"bridge": {"IPAddress": "172.17.0.2"}}
    found = container(NetworkSettings={"Ports": {"8000/tcp": None}, "Networks": networks}).reached_at(INSIDE)
    assert found == Endpoint(host="172.17.0.2", port=8000, api_key="s3cret")


def test_a_port_that_nothing_leads_to_is_refused() -> None:
    with pytest.raises(ConfigError, match="port 8000 is published"):
        container().reached_at(INSIDE)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "[1]", "[{}]", '[{"Id": "a"}]', '[{"Id": 3, "Name": "/x"}]', "[{}, {}]"]
)
def test_what_is_no_container_is_a_protocol_error(text: str) -> None:
    with pytest.raises(ProtocolError):
        read_container(text)


@pytest.mark.parametrize("name", ["", "a b", "-x", "a;reboot", "$(id)", "a\nb", "/x", "x" * 300])
def test_names_that_docker_would_not_give_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="--docker"):
        check_container_name(name)
    assert check_container_name("qwen_3.5-prod") == "qwen_3.5-prod"
