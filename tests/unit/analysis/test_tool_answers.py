from dataclasses import replace

import pytest

from spectune.analysis.tool_answers import (
    alike_kept,
    count_calls,
    ends_in_calls,
    is_valid_call,
    offered_tools,
)
from spectune.domain.measurement import RequestRecord, ToolCall
from spectune.testing.study_values import make_record

ADD = {"name": "add", "parameters": {"type": "object", "required": ["a", "b"]}}
OFFERED = offered_tools({"tools": [{"type": "function", "function": ADD}]})
GOOD = ToolCall(name="add", arguments='{"a": 1, "b": 2}')
CUT = ToolCall(name="add", arguments='{"a": 1, "b"')


def record(index: int, *calls: ToolCall, finish: str = "tool_calls") -> RequestRecord:
    made = make_record(index, sent_at_s=0.0, duration_s=1.0, tokens=10)
    return replace(made, finish_reason=finish, tool_calls=calls)


def test_offered_functions_are_known_by_name_with_what_they_require() -> None:
    assert dict(OFFERED) == {"add": frozenset({"a", "b"})}
    assert offered_tools({"functions": [{"name": "now"}]}) == {"now": frozenset()}
    for nonsense in ({}, {"tools": None}, {"tools": [{"function": 1}, 2]}, {"tools": "x", "functions": "y"}):
        assert offered_tools(nonsense) == {}


@pytest.mark.parametrize(
    ("name", "arguments", "is_valid"),
    [
        ("add", '{"a": 1, "b": 2, "c": 3}', True),
        ("add", '{"a": 1}', False),  # lacks b
        ("add", '{"a": 1, "b": 2', False),  # no JSON
        ("add", "[1, 2]", False),
        ("add", "", False),
        ("sub", '{"a": 1, "b": 2}', False),  # was not offered
    ],
)
def test_a_call_is_valid_when_its_function_was_offered_and_its_arguments_fit(
    name: str, arguments: str, *, is_valid: bool
) -> None:
    assert is_valid_call(ToolCall(name=name, arguments=arguments), OFFERED) == is_valid


def test_a_function_that_requires_nothing_may_be_called_without_arguments() -> None:
    assert is_valid_call(ToolCall(name="now", arguments=""), {"now": frozenset()})


def test_calls_are_counted_in_whole_answers_to_requests_that_offer_tools() -> None:
    records = [record(0, GOOD, CUT), record(1, CUT, finish="length"), record(2, GOOD), record(3)]
    assert count_calls(records, {0: OFFERED, 1: OFFERED, 3: OFFERED}) == (1, 2)


def test_an_answer_ends_in_calls_when_all_of_them_are_valid() -> None:
    found = [ends_in_calls(one, OFFERED) for one in (record(0, GOOD), record(0, GOOD, CUT), record(0))]
    assert found == [True, False, False]


def test_answers_whose_calls_one_side_alone_kept_are_left_out_on_both_sides() -> None:
    old = [replace(record(index), tool_calls=None) for index in range(4)]
    ours = [record(0, GOOD), old[1], record(2, GOOD), record(3, GOOD), record(5, GOOD)]
    offs = [old[0], old[1], record(2, GOOD), old[3]]
    found = alike_kept(ours, offs, {0: OFFERED, 1: OFFERED, 2: OFFERED, 5: OFFERED})
    assert [[one.index for one in side] for side in found] == [[1, 2, 3, 5], [1, 2, 3]]  # 3 offers no tools


def test_of_a_store_without_calls_the_answers_word_is_taken() -> None:
    old = replace(record(0), tool_calls=None)
    assert ends_in_calls(old, OFFERED)
    assert not ends_in_calls(replace(old, finish_reason="stop"), OFFERED)
    assert count_calls([old], {0: OFFERED}) == (0, 0)
