import pytest

from spectune.errors import ConfigError
from spectune.testing.faults import Fault, Faults


def test_a_fault_without_a_setting_applies_at_every_setting() -> None:
    faults = (Fault.parse("die-after:5"),)
    assert Faults.at(faults, 0).has("die-after", 5)
    assert not Faults.at(faults, 0).has("die-after", 4)


def test_a_fault_of_one_setting_leaves_the_others_alone() -> None:
    faults = (Fault.parse("die-at-start@3"),)
    assert Faults.at(faults, 3).has("die-at-start")
    assert not Faults.at(faults, 2).has("die-at-start")


@pytest.mark.parametrize("text", ["explode", "die-after:x", "die-after:1@x", ""])
def test_an_unknown_fault_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--sim-fault"):
        Fault.parse(text)
