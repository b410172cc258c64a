"""Units as people write them: templates, quoting, drop-ins, notify, slow stops, limits, users, reboots."""

import getpass
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spectune.launch.local_host import LocalHost
from spectune.launch.systemd_quoting import quote_word
from spectune.launch.systemd_service import SystemdService
from spectune.launch.unit_name import UnitName
from spectune.testing.service_rig import Driver, StandIn, job, open_journals
from spectune.testing.systemd_box import SystemdBox, standin_command

pytestmark = [pytest.mark.needs_root, pytest.mark.timeout(120)]
MakeStandIn = Callable[..., StandIn]


def tuned(driver: Driver, unit: StandIn, folder: Path, **words: object) -> dict[str, object]:
    """A session on the unit, which must have come back as it was."""
    before = unit.argv()
    ran = driver.run(**job(unit, folder, trials=2, **words))
    assert ran["error"] == ""
    assert unit.traces() == []
    assert unit.argv() == before
    assert open_journals(folder) == []
    return ran


def measured(folder: Path) -> str:
    return (folder / "measured").read_text()


@pytest.mark.parametrize("restart", ["no", "always", "on-failure"])
def test_any_restart_policy(driver: Driver, stand_in: MakeStandIn, tmp_path: Path, restart: str) -> None:
    unit = stand_in(service=f"Restart={restart}\nRestartSec=50ms")
    unit.up()
    tuned(driver, unit, tmp_path)
    assert measured(tmp_path).count("--trial") == 2


def test_a_unit_that_notifies_and_stops_slowly(driver: Driver, stand_in: MakeStandIn, tmp_path: Path) -> None:
    unit = stand_in(service="Type=notify\nNotifyAccess=all", words=("--notify", "0.4", "--slow-stop", "0.5"))
    unit.up()
    tuned(driver, unit, tmp_path)
    assert measured(tmp_path).count("--trial") == 2


def test_a_unit_that_must_be_killed_to_stop(driver: Driver, stand_in: MakeStandIn, tmp_path: Path) -> None:
    """Its stop ends in ActiveState=failed, which is no failure of a trial."""
    unit = stand_in(service="TimeoutStopSec=300ms\nRestart=always", words=("--slow-stop", "60"))
    unit.up()
    tuned(driver, unit, tmp_path)
    assert unit.box.show(unit.name, "ActiveState") == "active"


def test_a_start_limit_is_not_hit_by_us(driver: Driver, stand_in: MakeStandIn, tmp_path: Path) -> None:
    unit = stand_in()
    command = standin_command(unit.port)
    limits = "[Unit]\nStartLimitBurst=2\nStartLimitIntervalSec=600\n"
    unit.box.unit(unit.name, f"{limits}[Service]\nExecStart={command}\nRestart=always\n")
    unit.up()
    tuned(driver, unit, tmp_path / "a")
    tuned(driver, unit, tmp_path / "b")


def test_a_unit_at_its_start_limit_comes_back(driver: Driver, stand_in: MakeStandIn, tmp_path: Path) -> None:
    """Killed while its trial's server keeps dying: the way back does not trip over the limit."""
    unit = stand_in()
    command = standin_command(unit.port)
    limits = "[Unit]\nStartLimitBurst=1\nStartLimitIntervalSec=600\n"
    unit.box.unit(unit.name, f"{limits}[Service]\nExecStart={command}\n")
    before = unit.up()
    words = job(unit, tmp_path, timeout_s=1.0)
    alone = driver.run(**job(unit, tmp_path / "alone"))
    moments = alone["moments"]
    assert isinstance(moments, list)
    assert driver.run(**words, act_at=moments.index("changed start"))["signal"] == 9
    assert unit.wait_clean() == []
    assert unit.argv() == before


def test_a_template_with_quotes_specifiers_and_an_environment_file(
    driver: Driver, stand_in: MakeStandIn, tmp_path: Path
) -> None:
    unit = stand_in("tmpl-a@two-words.service")
    (tmp_path / "env").write_text("STANDIN_TWO='from file'\nWORDS=--a --b\n")
    words = (
        "--name %i",
        '"two words"',
        "'single \"q\"'",
        r"tab\x09",
        "${STANDIN_TWO}",
        "$WORDS",
        "100%%",
        "$$HOME",
    )
    unit.write(
        words=words,
        service=f"Environment=STANDIN_ONE=%p\nEnvironmentFile={tmp_path}/env\nEnvironmentFile=-/nonexistent",
    )
    (unit.box.etc / unit.name).rename(unit.box.etc / "tmpl-a@.service")
    unit.box.systemctl("daemon-reload")
    argv = unit.up()
    assert argv[2:] == [
        "--name", "two-words", "two words", 'single "q"', "tab\t", "from file", "--a", "--b", "100%", "$HOME",
    ]  # fmt: skip
    environment = unit.ask()["env"]
    tuned(driver, unit, tmp_path / "s")
    assert unit.ask()["env"] == environment
    first = measured(tmp_path / "s").splitlines()[0]
    assert '"from file", "--a", "--b", "100%", "$HOME", "--trial", "0"' in first
    unit.box.systemctl("stop", unit.name)
    (unit.box.etc / "tmpl-a@.service").unlink()


def test_several_drop_ins_stay_and_the_last_one_counts(
    driver: Driver, stand_in: MakeStandIn, tmp_path: Path
) -> None:
    unit = stand_in()
    folder = unit.box.etc / f"{unit.name}.d"
    folder.mkdir()
    (folder / "10-limits.conf").write_text("[Service]\nLimitNOFILE=4096\nEnvironment=STANDIN_X=1\n")
    command = standin_command(unit.port, "--from-drop-in")
    (folder / "20-exec.conf").write_text(
        f"# a comment\n[Service]\nExecStart=\nExecStart={command} \\\n  --more\n"
    )
    unit.box.systemctl("daemon-reload")
    assert unit.up()[2:] == ["--from-drop-in", "--more"]
    tuned(driver, unit, tmp_path)
    assert '"--from-drop-in", "--more", "--trial"' in measured(tmp_path)
    assert len(unit.box.show(unit.name, "DropInPaths").split()) == 2
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()


def test_a_drop_in_that_would_win_over_ours_is_told(
    driver: Driver, stand_in: MakeStandIn, tmp_path: Path
) -> None:
    unit = stand_in()
    before = unit.up()
    folder = unit.box.etc / f"{unit.name}.d"
    folder.mkdir()
    (folder / "zzz-last.conf").write_text(f"[Service]\nExecStart=\nExecStart={standin_command(unit.port)}\n")
    unit.box.systemctl("daemon-reload")
    ran = driver.run(**job(unit, tmp_path))
    assert "zzz-last.conf" in str(ran["error"])
    assert unit.traces() == []
    assert unit.argv() == before
    (folder / "zzz-last.conf").unlink()
    folder.rmdir()


def test_another_user_stays_that_user(driver: Driver, stand_in: MakeStandIn, tmp_path: Path) -> None:
    unit = stand_in()
    command = f"/usr/bin/env {standin_command(unit.port)}"
    reads_all = "AmbientCapabilities=CAP_DAC_READ_SEARCH"  # wherever the tests' interpreter lies
    unit.box.unit(unit.name, f"[Service]\nUser=nobody\n{reads_all}\nExecStart={command}\n")
    unit.up()
    uid = unit.ask()["uid"]
    assert uid != os.getuid(), getpass.getuser()
    tuned(driver, unit, tmp_path)
    assert unit.ask()["uid"] == uid


def test_a_unit_that_was_down_is_down_again(driver: Driver, stand_in: MakeStandIn, tmp_path: Path) -> None:
    unit = stand_in()
    ran = driver.run(**job(unit, tmp_path))
    assert (ran["error"], ran["told"]) == ("", "not running, as before")
    assert unit.box.show(unit.name, "ActiveState") == "inactive"
    assert unit.traces() == []
    assert measured(tmp_path).count("--trial") == 1


def test_what_hangs_on_the_unit_is_started_again(
    driver: Driver, stand_in: MakeStandIn, tmp_path: Path
) -> None:
    unit, front = stand_in(), stand_in()
    front.box.unit(
        front.name, f"[Unit]\nRequires={unit.name}\nAfter={unit.name}\n[Service]\nExecStart=/bin/sleep 600\n"
    )
    unit.up()
    front.box.systemctl("start", front.name)
    tuned(driver, unit, tmp_path)
    assert front.box.show(front.name, "ActiveState") == "active"


def test_a_unit_is_lent_to_one_at_a_time(driver: Driver, stand_in: MakeStandIn, tmp_path: Path) -> None:
    unit = stand_in()
    before = unit.up()
    alone = driver.run(**job(unit, tmp_path / "alone"))["moments"]
    assert isinstance(alone, list)
    first = job(unit, tmp_path / "first", timeout_s=30)
    driver.run(**first, act_at=alone.index("changed start"))
    second = driver.run(**job(unit, tmp_path / "second"))
    assert "one spectune at a time" in str(second["error"])
    assert open_journals(tmp_path / "second") == []
    assert driver.run(**{**first, "do": "restore"})["error"] == ""
    assert unit.traces() == []
    assert unit.argv() == before


def test_a_tuner_that_was_silent_too_long_may_change_nothing_more(
    driver: Driver, stand_in: MakeStandIn, tmp_path: Path
) -> None:
    """Another session has the unit meanwhile: the first one's `restore` leaves it alone."""
    unit = stand_in()
    unit.up()
    alone = driver.run(**job(unit, tmp_path / "alone"))["moments"]
    assert isinstance(alone, list)
    first = job(unit, tmp_path / "first", timeout_s=0.5)
    driver.run(**first, act_at=alone.index("changed start"))
    assert unit.wait_clean() == []
    second = job(unit, tmp_path / "second", timeout_s=30)
    driver.run(**second, act_at=alone.index("measured 0"))
    running = unit.argv()
    late = driver.run(**{**first, "do": "restore"})
    assert "another spectune has the unit" in str(late["error"])
    assert unit.argv() == running
    assert driver.run(**{**second, "do": "restore"})["error"] == ""
    assert unit.traces() == []


@pytest.fixture
def second_box(box: SystemdBox, tmp_path: Path) -> Iterator[SystemdBox]:
    """One that may be rebooted."""
    del box  # skips where there can be none
    with SystemdBox(tmp_path / "rebooted") as booted:
        yield booted


@pytest.mark.parametrize("is_enabled", [True, False])
def test_a_reboot_in_mid_trial(
    driver: Driver, second_box: SystemdBox, tmp_path: Path, *, is_enabled: bool
) -> None:
    box, folder = second_box, tmp_path / "s"
    unit = StandIn(box, "llm.service")
    command = standin_command(unit.port, "--base")
    box.unit(unit.name, f"[Service]\nExecStart={command}\n[Install]\nWantedBy=multi-user.target\n")
    if is_enabled:
        box.systemctl("enable", unit.name)
    before = unit.up()
    alone = driver.run(**job(unit, tmp_path / "alone"))["moments"]
    assert isinstance(alone, list)
    driver.run(**job(unit, folder, timeout_s=60), act_at=alone.index("measured 0"))
    assert unit.argv() != before
    box.stop()
    boot_id = box.folder / "boot_id"  # namespaces share the kernel's: another boot has another one
    boot_id.write_text("00000000-0000-4000-8000-000000000000\n")
    box.boot()
    box.run("mount", "--bind", str(boot_id), "/proc/sys/kernel/random/boot_id")
    restored = driver.run(**job(unit, folder, do="restore"))
    assert restored["error"] == ""
    assert unit.argv() == before
    assert unit.traces() == []
    assert open_journals(folder) == []
    assert "--trial" in measured(folder)


@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), max_size=4))
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_systemd_passes_exactly_the_words_that_were_quoted(box: SystemdBox, words: list[str]) -> None:
    """Whatever the words, newlines, quotes, `;` and `$()` among them: written, read and run unchanged."""
    show, out = box.folder / "show.sh", box.folder / "out"
    show.write_text("printf '%s\\0' \"$@\"\n")
    line = " ".join(["/bin/sh", str(show), *(quote_word(word) for word in words)])
    box.unit("words.service", f"[Service]\nType=oneshot\nStandardOutput=truncate:{out}\nExecStart={line}\n")
    unit = SystemdService(LocalHost(prefix=box.prefix), UnitName.parse("words")).unit()
    assert unit.command.argv[2:] == tuple(words)
    box.systemctl("start", "words.service")
    assert out.read_bytes() == b"".join(word.encode() + b"\0" for word in words or [""])
