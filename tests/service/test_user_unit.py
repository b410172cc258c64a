"""A unit of the user's own manager: tried, killed, given back by the watchdog of that manager."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from spectune.domain.command import HttpRequest
from spectune.domain.endpoint import Endpoint
from spectune.launch.http_probe import fetch
from spectune.testing import systemd_box
from spectune.testing.kill_driver import ask
from spectune.testing.recording import free_port
from spectune.testing.service_rig import Driver, open_journals, wait_until
from spectune.testing.systemd_box import standin_command
from spectune.testing.user_box import UserBox

pytestmark = [pytest.mark.needs_root, pytest.mark.timeout(120)]
UNIT = "mine.service"


@pytest.fixture
def box(tmp_path: Path) -> Iterator[UserBox]:
    if reason := systemd_box.obstacle():
        pytest.skip(reason)
    with UserBox(tmp_path / "user") as booted:
        yield booted


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_users_own_unit_comes_back(
    driver: Driver, box: UserBox, tmp_path: Path, *, is_killed: bool
) -> None:
    endpoint = Endpoint(host="127.0.0.1", port=free_port())
    command = standin_command(endpoint.port, "--mine")
    (box.units / UNIT).write_text(f"[Service]\nExecStart={command}\nRestart=always\n")
    box.systemctl("daemon-reload")
    box.systemctl("start", UNIT)
    before = ask(endpoint)["argv"]
    words: dict[str, object] = {
        "folder": str(tmp_path / "s"), "unit": UNIT, "port": endpoint.port, "prefix": " ".join(box.prefix),
        "is_user": True, "timeout_s": 1.0,
    }  # fmt: skip
    alone = driver.run(**{**words, "folder": str(tmp_path / "alone")}, do="tune")
    assert alone["error"] == ""
    moments = alone["moments"]
    assert isinstance(moments, list)
    ran = driver.run(**words, do="tune", act_at=moments.index("measured 0") if is_killed else -1)
    assert ran["signal"] == (9 if is_killed else 0)
    assert wait_until(lambda: not (box.runtime / "spectune").exists(), within_s=10)
    restored = driver.run(**words, do="restore")
    assert restored["error"] == ""
    assert (
        json.loads(fetch(endpoint, HttpRequest(method="GET", path="/"), timeout_s=5).body)["argv"] == before
    )
    assert not (box.runtime / "systemd" / "user" / f"{UNIT}.d").exists()
    assert open_journals(tmp_path / "s") == []
    assert "--trial" in (tmp_path / "s" / "measured").read_text()
