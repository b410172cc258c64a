import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.cli.options import Parser, parse_count, parse_numbers, parse_seconds
from spectune.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("0,2,4", (0, 2, 4)),
        ("1..5,8", (1, 2, 3, 4, 5, 8)),
        ("4,1", (1, 4)),
        ("7", (7,)),
        (" 1 , 3..3 ", (1, 3)),
    ],
)
def test_lists_and_ranges(text: str, numbers: tuple[int, ...]) -> None:
    assert parse_numbers(text, flag="--x", lowest=0) == numbers


@pytest.mark.parametrize(
    "text",
    [
        "",
        ",",
        "1,,2",
        "a",
        "-1",
        "1..",
        "5..1",
        "1.5",
        "1,1",
        "1..3,2",
        "0..99999999",
        "٣",
        "1 2",
        "1e3",
        "9" * 5000,
        f"1..{'9' * 5000}",
    ],
)
def test_anything_else_is_refused_with_the_flag_named(text: str) -> None:
    with pytest.raises(ConfigError, match="--x"):
        parse_numbers(text, flag="--x", lowest=0)


def test_a_number_too_small_is_named() -> None:
    with pytest.raises(ConfigError, match="`each number >= 1` must hold, got 0"):
        parse_numbers("0,4", flag="--concurrency", lowest=1)


@given(st.lists(st.integers(min_value=0, max_value=10_000), min_size=1, unique=True))
def test_any_list_comes_back_sorted(numbers: list[int]) -> None:
    text = ",".join(map(str, numbers))
    assert parse_numbers(text, flag="--x", lowest=0) == tuple(sorted(numbers))


@pytest.mark.parametrize("text", ["", "x", "1.5", "9" * 30, "٣"])
def test_a_count_must_be_a_whole_number(text: str) -> None:
    with pytest.raises(ConfigError, match="--seed"):
        parse_count(text, flag="--seed", lowest=0)


def test_a_count_has_a_lowest_value() -> None:
    assert parse_count("3", flag="--topk", lowest=1) == 3
    with pytest.raises(ConfigError, match="`--topk >= 1` must hold, got 0"):
        parse_count("0", flag="--topk", lowest=1)


def test_a_count_may_have_a_highest_value() -> None:
    assert parse_count("20", flag="--confirm", lowest=0, highest=20) == 20
    with pytest.raises(ConfigError, match="`--confirm <= 20` must hold, got 21"):
        parse_count("21", flag="--confirm", lowest=0, highest=20)


@pytest.mark.parametrize(
    "words", [["--x", ""], ["--x", " "], ["--many", ""], ["--many", "a", "--many", ""]], ids=" ".join
)
def test_an_option_without_a_word_in_it_is_named(words: list[str]) -> None:
    parser = Parser("spectune test", "Tests.")
    parser.add_argument("--x")
    parser.add_argument("--many", action="append")
    with pytest.raises(ConfigError, match=f"`{words[0]} has a value` must hold, it is empty"):
        parser.read(words)


@pytest.mark.parametrize("text", ["0", "-3", "nan", "inf", "1e308", "soon", ""])
def test_seconds_are_positive_and_finite(text: str) -> None:
    with pytest.raises(ConfigError, match="--budget"):
        parse_seconds(text, flag="--budget")


def test_seconds_may_have_a_fraction() -> None:
    assert parse_seconds("2.5", flag="--budget") == 2.5
