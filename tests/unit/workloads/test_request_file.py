import json

import pytest

from spectune.errors import ConfigError
from spectune.workloads.request_file import DEFAULT_MAX_TOKENS, request_file_pool

CHAT = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 9}


def lines(*bodies: object) -> str:
    return "\n".join(json.dumps(body) for body in bodies)


def test_chat_and_completions_go_to_their_own_endpoints() -> None:
    pool = request_file_pool(lines(CHAT, {"prompt": "x", "max_tokens": 5}), name="r.jsonl")
    assert [prompt.path for prompt in pool.prompts] == ["/v1/chat/completions", "/v1/completions"]
    assert [prompt.max_tokens for prompt in pool.prompts] == [9, 5]
    assert (pool.spec.kind, pool.spec.temperature, pool.spec.num_prompts) == ("file", None, 2)


def test_the_bodies_stay_as_they_are_but_for_streaming() -> None:
    body = {
        "prompt": "ä",
        "max_tokens": 5,
        "temperature": 0.7,
        "top_p": 0.9,
        "stream": True,
        "stream_options": {},
    }
    pool = request_file_pool(lines(body), name="r.jsonl")
    sent = json.loads(pool.prompts[0].body)
    assert sent == {"prompt": "ä", "max_tokens": 5, "temperature": 0.7, "top_p": 0.9}


def test_a_line_ends_only_at_a_line_feed() -> None:
    text = json.dumps({"prompt": "one\u2028two\x85", "max_tokens": 3}, ensure_ascii=False) + "\r\n"
    assert len(request_file_pool(text, name="r.jsonl").prompts) == 1


def test_repeated_prompts_are_left_out_and_told() -> None:
    pool = request_file_pool(lines(CHAT, CHAT, {**CHAT, "temperature": 1}), name="r.jsonl")
    assert len(pool.prompts) == 1
    assert "2 requests repeat" in pool.notes[0]


def test_a_missing_limit_is_filled_in_and_told() -> None:
    pool = request_file_pool(lines({"prompt": "x"}), name="r.jsonl")
    assert json.loads(pool.prompts[0].body)["max_tokens"] == DEFAULT_MAX_TOKENS
    assert str(DEFAULT_MAX_TOKENS) in pool.notes[0]


def test_token_ids_and_newer_limits_are_understood() -> None:
    ids = request_file_pool(lines({"prompt": [1, 2, 3], "max_tokens": 1}), name="r.jsonl")
    assert ids.prompts[0].path == "/v1/completions"
    newer = request_file_pool(lines({**CHAT, "max_tokens": None, "max_completion_tokens": 7}), name="r.jsonl")
    assert newer.prompts[0].max_tokens == 7


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("{not json", "is JSON"),
        ("[1]", "JSON object"),
        ("{}", "either messages or prompt"),
        ('{"prompt": "x", "messages": []}', "either messages or prompt"),
        ('{"prompt": ""}', "prompt is a text"),
        ('{"prompt": ["a", "b"]}', "prompt is a text"),
        ('{"prompt": {}}', "prompt is a text"),
        ('{"messages": []}', "messages is a list"),
        ('{"messages": ["hi"]}', "object with a role"),
        ('{"prompt": "x", "max_tokens": 0}', "max_tokens is"),
        ('{"prompt": "x", "max_tokens": "9"}', "max_tokens is"),
        ('{"prompt": "x", "max_tokens": true}', "max_tokens is"),
        ('{"prompt": "x", "n": 2}', "n is 1"),
        ('{"prompt": "x", "temperature": -1}', "temperature"),
        ('{"prompt": "x", "temperature": 1e999}', "temperature"),
        (r'{"prompt": "half \ud83d a character"}', "whole characters"),
    ],
)
def test_a_malformed_line_is_refused_with_place_rule_and_value(line: str, rule: str) -> None:
    with pytest.raises(ConfigError) as caught:
        request_file_pool(f'{{"prompt": "good"}}\n\n{line}', name="r.jsonl")
    assert "r.jsonl line 3" in str(caught.value)
    assert rule in str(caught.value)


def test_an_empty_file_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"r\.jsonl"):
        request_file_pool("\n \n", name="r.jsonl")
