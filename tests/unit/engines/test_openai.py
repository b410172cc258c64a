import json

import pytest

from spectune.engines import openai
from spectune.errors import ProtocolError


def test_the_probe_names_the_model_once_it_is_known() -> None:
    known, unknown = openai.completion_probe("m").body, openai.completion_probe("").body
    assert known is not None
    assert unknown is not None
    assert json.loads(known)["model"] == "m"
    assert "model" not in json.loads(unknown)


def test_a_completion_gives_its_tokens() -> None:
    assert openai.read_completion('{"choices": [{"text": "x"}], "usage": {"completion_tokens": 8}}') == 8


@pytest.mark.parametrize(
    "body",
    [
        "garbage",
        '{"choices": [], "usage": {"completion_tokens": 8}}',
        '{"choices": [{"text": "x"}]}',
        '{"choices": [{"text": "x"}], "usage": {"completion_tokens": 0}}',
    ],
)
def test_a_completion_without_tokens_is_no_generation(body: str) -> None:
    with pytest.raises(ProtocolError):
        openai.read_completion(body)


def test_the_first_model_is_served() -> None:
    assert openai.read_model('{"data": [{"id": "a"}, {"id": "b"}]}') == "a"
    with pytest.raises(ProtocolError):
        openai.read_model('{"data": []}')
