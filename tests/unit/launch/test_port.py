import socket

import pytest

from spectune.domain.endpoint import Endpoint
from spectune.errors import ConfigError, LaunchError, PortInUse
from spectune.launch.port import check_port_free, wait_port_free
from spectune.testing.recording import FakeClock, free_port


def test_a_taken_port_is_told_with_what_to_do() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        endpoint = Endpoint(host="127.0.0.1", port=listener.getsockname()[1])
        with pytest.raises(PortInUse, match=f"port {endpoint.port}.*--port"):
            check_port_free(endpoint)


def test_a_free_port_passes() -> None:
    check_port_free(Endpoint(host="127.0.0.1", port=free_port()))


@pytest.mark.parametrize("host", ["192.0.2.1", "no such host"])
def test_an_address_of_another_machine_is_refused(host: str) -> None:
    with pytest.raises(ConfigError, match="serve command"):
        check_port_free(Endpoint(host=host, port=free_port()))


def test_a_port_that_stays_taken_is_an_error_after_the_deadline() -> None:
    clock = FakeClock()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        endpoint = Endpoint(host="127.0.0.1", port=listener.getsockname()[1])
        with pytest.raises(LaunchError, match="still taken"):
            wait_port_free(endpoint, deadline_s=3.0, clock=clock)
    assert clock.now_s >= 1003
