import pytest

from spectune.cli.service_options import ContainerPlace, Window, parse_window
from spectune.cli.tune_options import parse_tune_options
from spectune.errors import ConfigError


def test_a_unit_with_its_terms() -> None:
    words = ["--unit", "llm", "--ssh", "root@gpu1", "--sudo", "--window", "02:00-04:00", "--yes"]
    words += ["--before-stop", "lb drain 'a b'", "--orphan-timeout", "30s", "--max-downtime", "30m"]
    options = parse_tune_options(words)
    terms = options.service
    assert terms is not None
    assert terms.place.flags == "--unit llm.service --ssh root@gpu1 --sudo"
    assert (terms.before_stop, terms.orphan_timeout_s) == (("lb", "drain", "a b"), 30.0)
    assert (terms.window, terms.is_confirmed) == (Window(begin_min=120, end_min=240), True)
    assert options.search.max_downtime_s == 1800.0


def test_a_container_with_its_terms() -> None:
    words = ["--docker", "llm-prod", "--ssh", "gpu1", "--sudo", "--quiet-for", "2s", "--max-downtime", "1h"]
    terms = parse_tune_options(words).service
    assert terms is not None
    assert terms.place == ContainerPlace(name="llm-prod", compose_file="", ssh="gpu1", use_sudo=True)
    assert terms.place.flags == "--docker llm-prod --ssh gpu1 --sudo"
    assert terms.quiet_s == 2.0
    composed = parse_tune_options(["--docker", "llm", "--compose", "/srv/my app/compose.yaml"]).service
    assert composed is not None
    assert composed.place.flags == "--docker llm --compose '/srv/my app/compose.yaml'"


def test_there_is_none_by_default() -> None:
    assert parse_tune_options([]).service is None


def test_a_grid_search_of_a_unit_has_a_limit_too() -> None:
    words = ["--unit", "llm", "--num-steps", "0,1", "--max-downtime", "1h"]
    assert parse_tune_options(words).search.max_downtime_s == 3600.0


@pytest.mark.parametrize(
    "words",
    [
        ["--ssh", "gpu1"],
        ["--sudo"],
        ["--user"],
        ["--allow-live"],
        ["--window", "02:00-04:00"],
        ["--unit", "llm", "--sudo", "--user"],
        ["--unit", "llm; reboot"],
        ["--docker", "llm; reboot"],
        ["--docker", "llm", "--unit", "llm"],
        ["--docker", "llm", "--user"],
        ["--docker", "llm", "--", "spectune", "serve"],
        ["--compose", "compose.yaml"],
        ["--unit", "llm", "--", "spectune", "serve"],
        ["--unit", "llm", "--ssh", "-oProxyCommand=reboot"],
        ["--unit", "llm", "--ssh", "gpu1; reboot"],
        ["--unit", "llm", "--ssh", ""],
        ["--unit", "llm", "--window", "2-4"],
        ["--unit", "llm", "--window", "25:00-26:00"],
        ["--unit", "llm", "--window", "02:00-02:00"],
        ["--unit", "llm", "--orphan-timeout", "0.1"],
        ["--unit", "llm", "--before-stop", "'open"],
        ["--unit", "llm", "--before-stop", ""],
        ["--unit", "llm", "--after-restore", "lb --token secret on"],
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_asked(words: list[str]) -> None:
    with pytest.raises(ConfigError):
        parse_tune_options(words)


@pytest.mark.parametrize(
    ("text", "now", "left"),
    [
        ("02:00-04:00", 2 * 60, 120),
        ("02:00-04:00", 3 * 60 + 59, 1),
        ("02:00-04:00", 4 * 60, 0),
        ("02:00-04:00", 1 * 60 + 59, 0),
        ("23:00-01:00", 23 * 60 + 30, 90),
        ("23:00-01:00", 30, 30),
        ("23:00-01:00", 12 * 60, 0),
    ],
)
def test_a_window_may_pass_midnight(text: str, now: int, left: int) -> None:
    assert parse_window(text).left_min(now) == left
