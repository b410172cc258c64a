"""Request bodies are read strictly: what is not understood is refused by name."""

import json

import pytest

from spectune.cpu_engine.requests import BadRequest, Generation, read_generation


def read(body: object, *, is_chat: bool = False) -> Generation:
    return read_generation(json.dumps(body).encode(), is_chat=is_chat, vocab_size=100)


def test_a_completion_with_defaults() -> None:
    got = read({"prompt": "def f", "model": "any"})
    assert (got.text, got.max_tokens, got.temperature, got.seed, got.stream) == (
        "def f",
        16,
        1.0,
        None,
        False,
    )


def test_a_chat_joins_its_messages_and_fills_the_context() -> None:
    messages = [
        {"role": "system", "content": "a"},
        {"role": "user", "content": [{"type": "text", "text": "b"}]},
    ]
    got = read({"messages": messages}, is_chat=True)
    assert (got.text, got.max_tokens) == ("a\nb\n", None)


def test_a_null_limit_leaves_the_other_one_in_force() -> None:
    assert read({"prompt": "x", "max_completion_tokens": None, "max_tokens": 3}).max_tokens == 3


def test_a_number_too_large_is_told_the_largest() -> None:
    with pytest.raises(BadRequest, match="from 1 to 2147483647"):
        read({"prompt": "x", "max_tokens": 2**31})


def test_continuous_usage_implies_a_last_usage_event() -> None:
    got = read({"prompt": "x", "stream": True, "stream_options": {"continuous_usage_stats": True}})
    assert (got.include_usage, got.continuous_usage) == (True, True)


def test_token_ids_are_a_prompt() -> None:
    assert read({"prompt": [1, 2, 99]}).ids == (1, 2, 99)
    assert read({"prompt": ["text"]}).text == "text"


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ([], None),
        ({}, "prompt"),
        ({"prompt": ""}, "prompt"),
        ({"prompt": [100]}, "prompt"),
        ({"prompt": [True]}, "prompt"),
        ({"prompt": "x", "max_tokens": 0}, "max_tokens"),
        ({"prompt": "x", "max_tokens": 1.5}, "max_tokens"),
        ({"prompt": "x", "temperature": -1}, "temperature"),
        ({"prompt": "x", "temperature": "hot"}, "temperature"),
        ({"prompt": "x", "top_p": 0}, "top_p"),
        ({"prompt": "x", "top_k": -2}, "top_k"),
        ({"prompt": "x", "seed": "a"}, "seed"),
        ({"prompt": "x", "stop": [""]}, "stop"),
        ({"prompt": "x", "stop": ["a"] * 5}, "stop"),
        ({"prompt": "x", "stream": 1}, "stream"),
        ({"prompt": "x", "stream_options": {}}, "stream_options"),
        ({"prompt": "x", "n": 2}, "n"),
        ({"prompt": "x", "logprobs": 1}, "logprobs"),
        ({"prompt": "x", "colour": "red"}, "colour"),
        ({"prompt": "half \ud800 a character"}, "prompt"),
    ],
)
def test_bad_bodies_are_refused_by_parameter(body: object, param: str | None) -> None:
    with pytest.raises(BadRequest) as refused:
        read(body)
    assert refused.value.param == param


@pytest.mark.parametrize(
    "messages",
    [
        None,
        [],
        ["x"],
        [{"role": "user"}],
        [{"role": "user", "content": " "}],
        [{"role": "user", "content": "\udfff"}],
    ],
)
def test_bad_messages_are_refused(messages: object) -> None:
    with pytest.raises(BadRequest):
        read({"messages": messages}, is_chat=True)


@pytest.mark.parametrize("raw", [b"", b"{", b"\xff\xfe", b"[" * 100_000])
def test_bodies_that_are_not_json_are_refused(raw: bytes) -> None:
    with pytest.raises(BadRequest, match="not JSON"):
        read_generation(raw, is_chat=False, vocab_size=100)
