import pytest

from spectune.errors import ConfigError
from spectune.perfmodel.input_text import MAX_DEPTH, count_of, csv_lines, json_of, number_of


@pytest.mark.parametrize(
    ("raw", "value"), [(3, 3.0), (2.5, 2.5), (" 1e3 ", 1000.0), (".5", 0.5), ("-2.", -2.0), (1e300, 1e300)]
)
def test_numbers_are_read(raw: object, value: float) -> None:
    assert number_of(raw, "x", "here") == value


@pytest.mark.parametrize(
    "raw",
    [True, None, [], "", "x", "1_000", "\u0663", "nan", "inf", "1e999", "9" * 5000, 10**400, float("inf")],
)
def test_what_is_no_finite_number_in_ascii_is_refused(raw: object) -> None:
    with pytest.raises(ConfigError, match="here: `x is a number` must hold") as caught:
        number_of(raw, "x", "here")
    assert len(str(caught.value)) < 120


def test_counts_are_whole_and_bounded() -> None:
    assert count_of("12", "n", "here", lowest=1, highest=12) == 12
    for raw, message in ((0, "whole number >= 1"), (1.5, "whole number >= 1"), (1e300, "`n <= 12`")):
        with pytest.raises(ConfigError, match=message):
            count_of(raw, "n", "here", lowest=1, highest=12)


def test_nesting_is_bounded_whatever_the_interpreter_allows() -> None:
    for depth, is_read in ((MAX_DEPTH, True), (MAX_DEPTH + 1, False), (100_000, False)):
        text = "[" * depth + "]" * depth
        if is_read:
            assert isinstance(json_of(text, "t"), list)
        else:
            with pytest.raises(ConfigError, match="t: `at most 50 levels of nesting` must hold"):
                json_of(text, "t")


@pytest.mark.parametrize("text", ['["\\ud800"]', '{"\\udfff": 1}', '{"a": {"b": "x\\ud800y"}}'])
def test_text_that_cannot_be_written_again_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="without lone surrogates") as caught:
        json_of(text, "t")
    assert str(caught.value).isascii()


def test_lines_carry_their_numbers_and_blank_ones_are_left_out() -> None:
    assert list(csv_lines("a;b\n\n1; 2\n", "t")) == [(1, ["a", "b"]), (3, ["1", "2"])]
    with pytest.raises(ConfigError, match="t line 2: `valid CSV` must hold, got: field larger"):
        list(csv_lines("a,b\n1," + "x" * 200_000, "t"))
