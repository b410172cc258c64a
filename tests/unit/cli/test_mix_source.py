import threading
from contextlib import suppress
from pathlib import Path

import pytest

from spectune.cli.mix_source import load_mix
from spectune.clock import SystemClock
from spectune.domain.command import HttpRequest
from spectune.errors import ConfigError, ServerUnreachable
from spectune.launch.http_probe import fetch
from spectune.testing.recording import FakeClock, free_port
from spectune.testing.simulation import running_simulation


def test_lists_and_names_need_no_source() -> None:
    assert load_mix("1:3,4:1", FakeClock()) == ((1, 0.75), (4, 0.25))
    assert load_mix("chat", FakeClock())[0] == (1, 0.1)


def test_a_request_log_is_read(tmp_path: Path) -> None:
    log = tmp_path / "traffic.csv"
    log.write_text("start_s,end_s\n0,3\n2,3\n", encoding="utf-8")
    assert load_mix(str(log), FakeClock()) == ((1, 0.666667), (2, 0.333333))
    log.write_text("start_s,end_s\n0,3\n2,3\n", encoding="utf-8-sig")
    assert load_mix(str(log), FakeClock()) == ((1, 0.666667), (2, 0.333333))
    with pytest.raises(ConfigError, match="or a request log"):
        load_mix(str(tmp_path / "missing.csv"), FakeClock())
    log.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="UTF-8"):
        load_mix(str(log), FakeClock())


def test_a_running_server_is_watched(tmp_path: Path) -> None:
    with running_simulation(tmp_path) as server:
        address = server.endpoint.base_url
        with pytest.raises(ConfigError, match="something runs while it is watched"):
            load_mix(address, FakeClock(), watch_s=1.0)
        body = '{"prompt": "x", "max_tokens": 2000}'
        request = HttpRequest(method="POST", path="/v1/completions", body=body)

        def send() -> None:
            with suppress(ServerUnreachable):  # the server is stopped in its midst
                fetch(server.endpoint, request, timeout_s=60.0)

        traffic = threading.Thread(target=send)
        traffic.start()
        while (found := watch(address)) == ():
            assert traffic.is_alive(), "the request must be seen while it runs"
    traffic.join()
    assert found == ((1, 1.0),)


def watch(address: str) -> tuple[tuple[int, float], ...]:
    try:
        return load_mix(address, SystemClock(), watch_s=0.3)
    except ConfigError:
        return ()


@pytest.mark.parametrize(
    "address",
    [
        "https://localhost:1",
        "http://localhost",
        "http://localhost:99999",
        "http://[::1",
        "http://ex ample:80",
        "http://u:secret@localhost:80",
    ],
)
def test_an_address_must_have_a_port(address: str) -> None:
    with pytest.raises(ConfigError, match="http://HOST:PORT") as told:
        load_mix(address, FakeClock())
    assert "secret" not in str(told.value)


def test_a_server_that_does_not_answer_is_named() -> None:
    with pytest.raises(ConfigError, match="the server answers"):
        load_mix(f"http://127.0.0.1:{free_port()}", FakeClock())
