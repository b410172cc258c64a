"""Answers are OpenAI's, byte for byte JSON."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.cpu_engine.responses import DONE, AnswerWriter, Usage, error_body

USAGE = Usage(prompt=3, completion=2, cached=1)


def writer(*, is_chat: bool) -> AnswerWriter:
    return AnswerWriter(answer_id="x-1", created=5, model='m"odel', is_chat=is_chat)


def payload(event: bytes) -> dict[str, object]:
    assert event.startswith(b"data: ")
    assert event.endswith(b"\n\n")
    parsed: dict[str, object] = json.loads(event[6:])
    return parsed


@given(st.text())
def test_any_text_is_carried_by_events_and_whole_answers(text: str) -> None:
    event = payload(writer(is_chat=False).event(text, "", USAGE))
    assert event["choices"] == [{"index": 0, "text": text, "logprobs": None, "finish_reason": None}]
    whole = json.loads(writer(is_chat=True).whole(text, "stop", USAGE))
    assert whole["choices"][0]["message"] == {"role": "assistant", "content": text}


@pytest.mark.parametrize(("is_chat", "kind"), [(False, "text_completion"), (True, "chat.completion.chunk")])
def test_events_name_their_kind_model_and_usage(is_chat: bool, kind: str) -> None:
    event = payload(writer(is_chat=is_chat).event("a", "length", USAGE))
    assert (event["object"], event["model"], event["id"], event["created"]) == (kind, 'm"odel', "x-1", 5)
    assert event["usage"] == {
        "prompt_tokens": 3,
        "completion_tokens": 2,
        "total_tokens": 5,
        "prompt_tokens_details": {"cached_tokens": 1},
    }


def test_a_chat_stream_opens_with_the_role_and_completions_with_nothing() -> None:
    opening = payload(writer(is_chat=True).opening())
    assert opening["choices"] == [
        {"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}
    ]
    assert writer(is_chat=False).opening() == b""


def test_the_usage_event_has_no_choices_and_the_stream_ends_with_done() -> None:
    assert payload(writer(is_chat=False).usage_event(USAGE))["choices"] == []
    assert DONE == b"data: [DONE]\n\n"


def test_errors_have_openais_shape() -> None:
    assert json.loads(error_body("no", "invalid_request_error", "n")) == {
        "error": {"message": "no", "type": "invalid_request_error", "param": "n", "code": None}
    }
