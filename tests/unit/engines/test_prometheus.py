import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.engines.prometheus import parse_metrics, per_position, total
from spectune.errors import ProtocolError


def test_labels_escapes_timestamps_and_comments_are_read() -> None:
    text = '# HELP a b\n# TYPE a counter\na{x="q\\"\\\\\\n",y="2"} 1e3 1700000000\nb NaN\nc{} +Inf\n'
    samples = parse_metrics(text)
    assert samples[0].label("x") == 'q"\\\n'
    assert samples[0].value == 1000
    assert math.isnan(samples[1].value)
    assert samples[2].value == math.inf


@pytest.mark.parametrize(
    "line", ["<html>", "a", "a b", "a 1 2 3", 'a{x="1" 1', "a{x=1} 1", 'a{x="1"}', "1a 2", "{} 1"]
)
def test_garbage_is_refused_with_its_line(line: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        parse_metrics(f"good 1\n{line}\n")
    assert repr(line) in str(caught.value)


@given(
    value=st.floats(allow_nan=False),
    label=st.text(alphabet=st.characters(exclude_characters='"\\\n\r', exclude_categories=["C", "Z"])),
)
def test_what_is_written_is_read(value: float, label: str) -> None:
    sample = parse_metrics(f'name{{l="{label}"}} {value!r}')[0]
    assert (sample.label("l"), sample.value) == (label, value)


def test_a_total_sums_over_labels_and_says_when_there_is_none() -> None:
    samples = parse_metrics('a{r="0"} 1\na{r="1"} 2')
    assert total(samples, "a") == 3
    assert total(samples, "b") is None


def test_a_position_in_other_digits_is_refused() -> None:
    samples = parse_metrics('accepted{position="٠"} 3')
    with pytest.raises(ProtocolError, match="position"):
        per_position(samples, "accepted")
