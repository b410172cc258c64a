import pytest

from spectune.domain.endpoint import Endpoint
from spectune.errors import ConfigError
from spectune.launch.host import HostAnswer
from spectune.launch.persistent import change_to, credential_path
from spectune.launch.systemd_service import SystemdService
from spectune.launch.systemd_unit import Unit
from spectune.launch.unit_name import UnitName

NAME = UnitName.parse("llm")
FILE = '{"1": {"candidate_steps": [3]}}'


class Host:
    """One with this systemd, and no drop-in yet."""

    name = "this machine"
    is_local = True

    def __init__(self, systemd: str) -> None:
        self._facts = f"uid=0\nboot_id=b\nruntime=/run/u\nconfig=/c\nstate=/s\n{systemd}"

    def run(self, argv: tuple[str, ...], *, stdin: str = "", timeout_s: float = 60.0) -> HostAnswer:
        """Answers what the facts are."""
        del stdin, timeout_s
        if argv[0] == "/bin/sh":
            return HostAnswer(status=0, stdout=self._facts, stderr="")
        return HostAnswer(status=1, stdout="", stderr="no such file")

    def reach(self, endpoint: Endpoint) -> Endpoint:
        """The endpoint itself."""
        return endpoint

    def close(self) -> None:
        """Nothing is open."""


@pytest.mark.parametrize("version", ["245", "246.7"])
def test_a_file_is_refused_where_systemd_would_pass_over_it(version: str) -> None:
    service = SystemdService(Host(f"systemd={version}\n"), NAME)
    with pytest.raises(ConfigError, match=rf"`systemd >= 247` must hold .* it is {version[:3]};"):
        change_to(service, "/bin/a", FILE)
    assert "SetCredential" not in change_to(service, "/bin/a").after


@pytest.mark.parametrize("told", ["systemd=247\n", "systemd=256~rc3\n", "systemd=\n", ""])
def test_a_file_is_carried_by_the_drop_in_where_systemd_is_new_or_not_known(told: str) -> None:
    change = change_to(SystemdService(Host(told), NAME), "/bin/a", FILE)
    assert change.after.endswith(f"ExecStart=/bin/a\nSetCredential=spectune-schedule.json:{FILE}\n")


def test_a_unit_asked_for_by_an_alias_has_its_credentials_under_its_own_name() -> None:
    found = Unit(name=NAME, properties=(("Id", "sglang-qwen.service"),), exec_start="/bin/a")
    assert credential_path(found) == "/run/credentials/sglang-qwen.service/spectune-schedule.json"
