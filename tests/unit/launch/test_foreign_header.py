from dataclasses import replace

import pytest

from spectune.errors import ConfigError
from spectune.launch.foreign_header import ExpectedPlace, check_foreign, printable
from spectune.launch.journal import JournalHeader

HEADER = JournalHeader(
    id="20261101-120000-llm_8000-0123456789-a1b2", kind="tune", study="20261101-115959-ffff",
    unit="llm@8000.service", ssh="", use_sudo=True, is_user=False, folder="/run/spectune/llm", kept="",
    drop_in="/run/systemd/system/llm.d/x.conf", dependents=("front.service",), orphan_timeout_s=60.0,
    token="t-1", boot_id="0a-1b", former="active", digest="d", before="{}", engine="sglang",
    after_restore=("rm", "-rf", "/"),
)  # fmt: skip
EXPECTED = ExpectedPlace(
    keeper="systemd", unit="llm@8000.service", is_user=False, folder="/run/spectune/llm",
    drop_in="/run/systemd/system/llm.d/x.conf", kept="/var/lib/spectune/llm",
)  # fmt: skip


def test_a_header_of_spectune_passes() -> None:
    check_foreign(HEADER, EXPECTED, "there")
    check_foreign(replace(HEADER, kind="apply", kept="/var/lib/spectune/llm"), EXPECTED, "there")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("id", "../../evil"),
        ("id", "/etc/cron.d/evil"),
        ("id", "20261101-120000-a/../../b"),
        ("id", "20261101-120000-a\n"),
        ("id", "99999999-999999-a"),
        ("id", 5),
        ("id", "20261101-120000-" + "a" * 300),
        ("study", "x; rm -rf ~"),
        ("study", "../other"),
        ("token", "$(id)"),
        ("boot_id", "-\x1b[2J"),
        ("former", ""),
        ("digest", ["d"]),
        ("engine", ".hidden"),
        ("kind", "attack"),
        ("keeper", "docker"),
        ("unit", "other.service"),
        ("is_user", True),
        ("folder", "/etc"),
        ("drop_in", "/etc/passwd"),
        ("kept", "/etc/ssh"),
        ("orphan_timeout_s", "soon"),
        ("orphan_timeout_s", -1.0),
        ("before", {"config": 1}),
        ("dependents", ("-evil.service",)),
        ("dependents", ("a.service", "b c.service")),
        ("dependents", "front.service;x"),
        ("dependents", (3,)),
    ],
)
def test_a_hostile_field_is_refused_by_name(name: str, value: object) -> None:
    hostile = replace(HEADER, **{name: value})  # type: ignore[arg-type]
    with pytest.raises(ConfigError) as refused:
        check_foreign(hostile, EXPECTED, "there")
    assert f"`{name} is " in str(refused.value)
    assert "\x1b" not in str(refused.value)


def test_what_a_terminal_would_obey_is_not_printed() -> None:
    assert printable("a\x1b]0;b\x07c\nd") == "a?]0;b?c?d"
