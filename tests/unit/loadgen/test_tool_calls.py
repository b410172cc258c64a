import json

from spectune.domain.measurement import ToolCall
from spectune.loadgen.stream_content import StreamContent, read_stream
from spectune.loadgen.tool_calls import ToolCallPieces


def piece(index: int | None, **function: object) -> dict[str, object]:
    made: dict[str, object] = {"function": function}
    return made if index is None else {**made, "index": index}


def read(*deltas: dict[str, object], key: str = "delta") -> StreamContent:
    chunks: list[dict[str, object]] = [{"choices": [{key: delta}]} for delta in deltas]
    chunks.append({"choices": [{key: {}, "finish_reason": "tool_calls"}]})
    chunks.append({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 9}})
    events = [b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks]
    return read_stream([(float(at), event) for at, event in enumerate([*events, b"data: [DONE]\n\n"])])


def test_arguments_that_come_in_pieces_are_joined_by_index() -> None:
    content = read(
        {"role": "assistant", "content": None},
        {"tool_calls": [{"id": "x", "type": "function", **piece(0, name="add", arguments="")}]},
        {"tool_calls": [piece(0, arguments='{"a":')]},
        {"tool_calls": [piece(1, name="stop", arguments="{}"), piece(0, arguments=" 1}")]},
    )
    assert content.tool_calls == (
        ToolCall(name="add", arguments='{"a": 1}'),
        ToolCall(name="stop", arguments="{}"),
    )
    assert content.chunk_times_s == (1.0, 2.0, 3.0)
    assert (content.text, content.finish_reason, content.error) == ("", "tool_calls", "")


def test_an_answer_in_one_piece_has_its_calls_in_order() -> None:
    message: dict[str, object] = {
        "content": "so",
        "tool_calls": [piece(None, name="a", arguments="{}"), piece(None, name="b", arguments="{}")],
    }
    content = read(message, key="message")
    assert content.text == "so"
    assert [call.name for call in content.tool_calls] == ["a", "b"]


def test_calls_streamed_without_an_index_are_told_apart_by_their_ids() -> None:
    content = read(
        {"tool_calls": [{"id": "x", **piece(None, name="add", arguments='{"a":')}]},
        {"tool_calls": [piece(None, arguments=" 1}")]},
        {"tool_calls": [{"id": "y", **piece(None, name="add", arguments='{"a":')}]},
        {"tool_calls": [{"id": "y", **piece(None, name="add", arguments=" 2}")}]},
        {"tool_calls": [{"id": "z", **piece(None, name="stop", arguments="{}")}]},
    )
    assert content.tool_calls == (
        ToolCall(name="add", arguments='{"a": 1}'),
        ToolCall(name="add", arguments='{"a": 2}'),
        ToolCall(name="stop", arguments="{}"),
    )


def test_without_index_and_id_a_second_name_opens_a_call() -> None:
    content = read(
        {"tool_calls": [piece(None, name="add")]},
        {"tool_calls": [piece(None, arguments='{"a": 1}')]},
        {"tool_calls": [piece(None, name="add", arguments='{"a":')]},
        {"tool_calls": [piece(None, arguments=" 2}")]},
    )
    assert content.tool_calls == (
        ToolCall(name="add", arguments='{"a": 1}'),
        ToolCall(name="add", arguments='{"a": 2}'),
    )


def test_the_older_form_of_one_function_is_a_call() -> None:
    content = read(
        {"function_call": {"name": "add", "arguments": '{"a"'}}, {"function_call": {"arguments": ": 2}"}}
    )
    assert content.tool_calls == (ToolCall(name="add", arguments='{"a": 2}'),)


def test_arguments_given_as_an_object_are_told_as_json() -> None:
    assert read({"tool_calls": [piece(0, name="a", arguments={"x": 1})]}).tool_calls == (
        ToolCall(name="a", arguments='{"x": 1}'),
    )


def test_what_is_no_call_is_none() -> None:
    pieces = ToolCallPieces()
    nonsense: list[object] = [None, "x", [], ["x"], [None]]
    assert not any(pieces.take({"tool_calls": tool_calls}) for tool_calls in nonsense)
    assert pieces.calls() == ()
    assert pieces.take({"tool_calls": [{"index": True, "function": "x"}]})
    assert pieces.calls() == (ToolCall(name="", arguments=""),)
