import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.engines.flags import flag_value, int_flag, without_flags
from spectune.errors import ConfigError

FLAGS = frozenset({"--a", "--b"})
OTHER_WORDS = st.text(alphabet="xyz- ='$;\n", min_size=1).filter(
    lambda word: not word.startswith(("--a", "--b"))
)


def test_the_last_of_repeated_flags_counts() -> None:
    assert flag_value(("--a=1", "--a", "2"), "--a") == "2"


def test_a_flag_that_only_begins_alike_is_another_flag() -> None:
    assert flag_value(("--abc", "1"), "--a") is None


def test_a_flag_without_value_is_refused() -> None:
    with pytest.raises(ConfigError, match="--a"):
        flag_value(("serve", "--a"), "--a")


def test_a_number_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="whole number"):
        int_flag(("--a", "three"), "--a")


@given(before=st.lists(OTHER_WORDS), after=st.lists(OTHER_WORDS), value=OTHER_WORDS)
def test_removal_touches_nothing_else(before: list[str], after: list[str], value: str) -> None:
    argv = (*before, "--a", value, *after, f"--b={value}")
    assert without_flags(argv, FLAGS) == (*before, *after)
