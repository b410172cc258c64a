import csv
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.errors import ConfigError
from spectune.workloads.mixes import MIXES, mix_of_counts, mix_of_log, read_mix, read_slo


@pytest.mark.parametrize("name", MIXES)
def test_built_in_mixes_are_shares_of_ascending_levels(name: str) -> None:
    mix = read_mix(name)
    assert mix == MIXES[name]
    assert sum(share for _, share in mix) == pytest.approx(1.0)
    assert [level for level, _ in mix] == sorted({level for level, _ in mix})


def test_weights_are_scaled_to_shares() -> None:
    assert read_mix("16:1,1:6,4:3") == ((1, 0.6), (4, 0.3), (16, 0.1))
    assert read_mix("8:1") == ((8, 1.0),)
    assert read_mix("traffic.csv") is None
    assert read_mix("1;4") is None


@pytest.mark.parametrize("text", ["9999999:1", "0:1,4:1", "4:0.5,4:0.5", "4:0,1:1"])
def test_a_mix_that_cannot_be_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="each level from 1 to 1000000, once, with a share > 0"):
        read_mix(text)


@given(st.lists(st.integers(0, 300), min_size=1, max_size=50))
def test_counts_give_shares_of_powers_of_two(counts: list[int]) -> None:
    mix = mix_of_counts(counts)
    assert bool(mix) == any(counts)
    assert all(level & (level - 1) == 0 for level, _ in mix)
    if mix:
        assert sum(share for _, share in mix) == pytest.approx(1.0, abs=1e-4)


def test_moments_of_a_day_are_left_out() -> None:
    rows = ["start_s,end_s", "0,86400", *["5,5.04"] * 60]
    assert mix_of_log("\n".join(rows), "log") == ((1, 1.0),)


def test_a_log_may_hold_prompts_and_its_faults_are_told() -> None:
    long = "x" * 200_000
    usual = csv.field_size_limit()
    assert mix_of_log(f"prompt,start_s,end_s\n{long},0,1\n", "log") == ((1, 1.0),)
    assert csv.field_size_limit() == usual


def test_a_log_is_weighed_by_time_in_flight() -> None:
    rows = [(0.0, 10.0), (4.0, 10.0), (4.0, 6.0), (4.0, 6.0), (50.0, 54.0)]  # 1: 4 + 4 s, 4: 2 s, 2: 4 s
    expected = ((1, 0.571429), (2, 0.285714), (4, 0.142857))
    lines = "\n".join(json.dumps({"start_s": start, "end_s": end}) for start, end in rows)
    assert mix_of_log(lines, "log") == expected
    table = "sent_at_s,ended_at_s,other\n" + "".join(f"{start},{end},x\n" for start, end in reversed(rows))
    assert mix_of_log(table, "log") == expected


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("", "at least one request"),
        ("start_s,end_s\n", "at least one request"),
        ("a,b\n1,2\n", "a start and an end in seconds"),
        ("start_s,end_s\n5,2\n", "a start and an end in seconds"),
        ("start_s,end_s\n1,nan\n", "a start and an end in seconds"),
        ("start_s,end_s\n1,1\n", "a request that takes time"),
        ('{"start_s": 1, "end_s": 2}\n{"start_s": \n', "line 2 is JSON"),
        ('{"start_s": 1, "end_s": 2}\n[1]\n', "line 2 is a JSON object"),
        ('{"a": ' + "[" * 20_000, "line 1 is JSON"),
        ("start_s,end_s\n-1e308,1e308\n", "a start and an end in seconds"),
    ],
)
def test_a_log_that_cannot_be_read_is_refused(text: str, rule: str) -> None:
    with pytest.raises(ConfigError, match=rule):
        mix_of_log(text, "traffic")


def test_a_number_of_many_digits_is_no_share_and_no_limit() -> None:
    assert read_mix("1:" + "9" * 400) is None
    with pytest.raises(ConfigError, match="--slo"):
        read_slo("ttft_p99=" + "9" * 400 + "s")


def test_other_line_separators_stay_within_a_prompt() -> None:
    line = json.dumps({"prompt": "a\u2028b", "start_s": 0, "end_s": 1}, ensure_ascii=False)
    assert mix_of_log(f"{line}\n", "log") == ((1, 1.0),)


def test_limits_are_seconds() -> None:
    assert read_slo("e2e_p90=2s") == (("e2e_p90", 2.0),)


@pytest.mark.parametrize(
    "text", ["ttft=1s", "ttft_p99=1", "itl_p50=3ms", "ttft_p99=0s", "e2e_p50=1s,e2e_p50=2s"]
)
def test_other_limits_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--slo"):
        read_slo(text)
