import pytest

from spectune.errors import ConfigError
from spectune.launch.unit_name import UnitName, unescape

HOSTILE = [
    "", " ", "a b", "a;reboot", "$(reboot)", "`reboot`", "a\nb", "../../etc/passwd", "a/b.service", "-x",
    "--now", "'a'", '"a"', "a|b", "a&b", "a>b", "é", "a@.service", "a" * 256, "x.socket/y", "*", "a?", "[a]",
    "a\0b",
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
def test_what_is_no_service_name_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--unit"):
        UnitName.parse(text)


@pytest.mark.parametrize(
    "text", ["llm", "sglang-qwen.service", "llm@8000.service", r"a\x2db@c\x2fd", "a.b:c_d"]
)
def test_service_names_are_taken_and_their_keys_are_fit_for_paths(text: str) -> None:
    name = UnitName.parse(text)
    assert name.full.endswith(".service")
    assert name.key.replace("-", "").replace("_", "").isalnum()


def test_different_units_have_different_keys() -> None:
    names = ["a@b", "a_b", "a-b", "a.b", "a:b"]
    assert len({UnitName.parse(name).key for name in names}) == len(names)


def test_an_instance_is_taken_apart() -> None:
    name = UnitName.parse("llm@models-qwen.service")
    assert (name.stem, name.prefix, name.instance) == ("llm@models-qwen", "llm", "models-qwen")
    assert unescape(name.instance) == "models/qwen"
    assert UnitName.parse("plain").instance == ""
