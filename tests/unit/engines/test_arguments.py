import pytest

from spectune.domain.command import Command
from spectune.engines.arguments import FlagRule, Flags
from spectune.engines.words import EngineWords
from spectune.errors import ConfigError


def flags(*argv: str, rule: FlagRule | None = None, file: tuple[tuple[str, ...], ...] = ()) -> Flags:
    words = EngineWords(command=Command(argv=argv), first=0, arguments=argv)
    return Flags(words=words, rule=rule or FlagRule(), file=file)


def test_the_last_mention_under_any_name_counts() -> None:
    found = flags("--port=1", "-p", "2", "--port", "3", "--sport", "4")
    assert found.value("--port", "-p") == "3"
    assert found.number("-p") == 2
    assert found.value("--other") is None


def test_the_command_comes_before_its_file() -> None:
    found = flags("--port", "1", file=(("--port", "2"), ("--host", "h"), ("--switch",)))
    assert (found.number("--port"), found.value("--host")) == (1, "h")
    assert found.has("--switch")
    assert not found.has("--swit")


def test_underscores_and_equals_are_as_the_engine_takes_them() -> None:
    assert flags("--a_b", "1", rule=FlagRule(has_underscores=True)).value("--a-b") == "1"
    assert flags("--a_b", "1").value("--a-b") is None
    assert flags("--a=1", rule=FlagRule(has_equals=False)).value("--a") is None


def test_places_cover_values_but_not_those_of_switches() -> None:
    found = flags("m", "--k", "3", "--on", "x", "--k=4")
    assert found.places("--k", "--on", switches=frozenset({"--on"})) == {1, 2, 3, 5}


@pytest.mark.parametrize(
    ("argv", "names"),
    [
        (("--port",), "port"),
        (("--port", "x"), "port"),
        (("--port", "0"), "port"),
        (("--port", "70000"), "port"),
    ],
)
def test_a_bad_port_is_refused(argv: tuple[str, ...], names: str) -> None:
    with pytest.raises(ConfigError, match=f"--{names}"):
        flags(*argv).port(1)


@pytest.mark.parametrize("value", ["x", "1.5", "-0.1", "nan"])
def test_a_share_is_from_0_to_1(value: str) -> None:
    with pytest.raises(ConfigError, match="--f"):
        flags("--f", value).share("--f")
    assert flags("--f=0.5").share("--f") == 0.5
    assert flags().share("--f") is None


def test_a_shortened_speculative_flag_is_refused_with_the_whole_one() -> None:
    names = frozenset({"--speculative-num-steps", "--speculative-num-draft-tokens"})
    flags("--speculative-num-steps", "3", "--speculate", "--s", "1").refuse_abbreviations(names)
    with pytest.raises(ConfigError, match="write --speculative-num-steps"):
        flags("--speculative-num-s=3").refuse_abbreviations(names)
