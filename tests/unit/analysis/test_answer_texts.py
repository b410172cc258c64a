import json
from dataclasses import replace

from spectune.analysis.answer_texts import NO_FORMATS, Comparison, compare_answers, count_valid, formats_of
from spectune.domain.measurement import RequestRecord, ToolCall
from spectune.domain.workload import LoadPlan, PlannedRequest
from spectune.testing.study_values import make_history, make_record, make_study


def record(index: int, text: str, *, tokens: int = 10, finish: str = "stop") -> RequestRecord:
    made = make_record(index, sent_at_s=0.0, duration_s=1.0, tokens=tokens)
    return replace(made, output_text=text, finish_reason=finish)


def calling(index: int, text: str, *calls: ToolCall) -> RequestRecord:
    return replace(record(index, text, finish="tool_calls"), tool_calls=calls)


def test_equal_answers_agree_in_every_token() -> None:
    found = compare_answers(4, [record(0, "abc")], [record(0, "abc")])
    assert (found.answers, found.tokens, found.agreement, found.first) == (1, 10, 1.0, None)


def test_an_answer_that_parts_half_way_agrees_in_half_its_tokens() -> None:
    found = compare_answers(4, [record(7, "abcdefghij")], [record(7, "abcdeXghij")])
    assert found.agreement == 0.5
    assert found.first is not None
    assert (found.first.concurrency, found.first.index) == (4, 7)
    assert (found.first.character, found.first.token) == (5, 5)


def test_a_shorter_answer_parts_where_it_ends() -> None:
    found = compare_answers(1, [record(0, "abcdefghij")], [record(0, "abcdefgh")])
    assert found.first is not None
    assert found.first.character == 8


def test_calls_of_tools_are_part_of_the_answer() -> None:
    call = ToolCall(name="add", arguments='{"a": 12}')
    other = ToolCall(name="add", arguments='{"a": 19}')
    same = compare_answers(1, [calling(0, "", call)], [calling(0, "", call)])
    assert (same.differing, same.agreement) == (0, 1.0)
    found = compare_answers(1, [calling(0, "", call)], [calling(0, "", other)])
    assert found.differing == 1
    assert found.first is not None
    assert found.first.character == len('\nadd({"a": 1')
    assert compare_answers(1, [calling(0, "so", call)], [calling(0, "so")]).differing == 1
    assert compare_answers(1, [calling(0, "", call)], [calling(0, "", call, call)]).differing == 1


def test_an_answer_whose_calls_were_not_kept_is_compared_by_its_text_alone() -> None:
    call = ToolCall(name="add", arguments="{}")
    old = replace(calling(0, "so"), tool_calls=None)
    for base, other in ((old, calling(0, "so", call)), (calling(0, "so", call), old), (old, old)):
        assert compare_answers(1, [base], [other]).differing == 0
    assert compare_answers(1, [old], [calling(0, "no", call)]).differing == 1


def test_requests_that_one_side_did_not_answer_are_left_out() -> None:
    failed = replace(record(1, "x"), error="reset", output_tokens=None)
    assert compare_answers(1, [record(0, "a"), record(1, "b")], [record(0, "a"), failed]).answers == 1


def test_comparisons_add_up_and_keep_the_earliest_place() -> None:
    late = compare_answers(1, [record(0, "abcdefghij")], [record(0, "abcdefghiX")])
    early = compare_answers(2, [record(0, "abcdefghij")], [record(0, "aXcdefghij")])
    total = late + early
    assert (total.answers, total.differing, total.agreement) == (2, 2, 0.5)
    assert total.first == early.first
    assert Comparison().agreement is None


def test_requests_for_json_and_tools_and_sampled_ones_are_told_from_their_bodies() -> None:
    bodies = (
        {"prompt": "a"},
        {"response_format": {"type": "json_object"}},
        {"tools": [{"type": "function", "function": {"name": "add"}}], "temperature": 0.7},
    )
    requests = tuple(
        PlannedRequest(index=index, path="/v1/chat/completions", body=json.dumps(body), max_tokens=8)
        for index, body in enumerate(bodies)
    )
    plan = LoadPlan(concurrency=1, warmup=(), requests=requests)
    formats = formats_of(replace(make_history(make_study(), ()), plans=(plan,)))[1, "search"]
    assert [sorted(found) for found in (formats.json, formats.tools, formats.sampled)] == [[1], [2], [2]]


def test_only_whole_answers_to_requests_for_a_format_are_checked() -> None:
    formats = replace(
        NO_FORMATS, json=frozenset({0, 1, 2}), tools={3: {"add": frozenset()}, 4: {"add": frozenset()}}
    )
    records = [
        record(0, '{"a": 1}'),
        record(1, '{"a": '),
        record(2, '{"a": ', finish="length"),
        calling(3, "", ToolCall(name="add", arguments="{}")),
        record(4, "text"),
        record(5, "text"),
    ]
    assert count_valid(records, formats) == (2, 4)
