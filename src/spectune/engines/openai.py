"""What all engines share: OpenAI's requests and answers, as text in and values out."""

import json

from spectune.domain.command import HttpRequest
from spectune.domain.text import whole_characters
from spectune.engines.json_answer import JsonAnswer
from spectune.errors import ProtocolError

PROBE_PROMPT = "def add(a, b):\n    return"
PROBE_TOKENS = 8


def models_request() -> HttpRequest:
    """Asks for the served models."""
    return HttpRequest(method="GET", path="/v1/models")


def read_model(body: str) -> str:
    """The first served model's name."""
    models = JsonAnswer(body, source="/v1/models").value("data")
    if isinstance(models, list) and models and isinstance(models[0], dict):
        name = models[0].get("id")
        if isinstance(name, str):
            return whole_characters(name)
    raise ProtocolError(f"/v1/models: `data[0].id is a string` must hold, got {body[:120]!r}.")


def completion_probe(model: str) -> HttpRequest:
    """A tiny greedy completion."""
    body: dict[str, object] = {"prompt": PROBE_PROMPT, "max_tokens": PROBE_TOKENS, "temperature": 0}
    if model:
        body["model"] = model
    return HttpRequest(method="POST", path="/v1/completions", body=json.dumps(body))


def read_completion(body: str) -> int:
    """Output tokens of a completion that was not streamed; at least 1.

    Raises:
        ProtocolError: no choices, or no usage that counts a token.
    """
    answer = JsonAnswer(body, source="/v1/completions")
    choices, usage = answer.value("choices"), answer.value("usage")
    if not isinstance(choices, list) or not choices:
        raise ProtocolError(f"/v1/completions: `choices is not empty` must hold, got {body[:120]!r}.")
    tokens = usage.get("completion_tokens") if isinstance(usage, dict) else None
    if not isinstance(tokens, int) or isinstance(tokens, bool) or tokens < 1:
        raise ProtocolError(
            f"/v1/completions: `usage.completion_tokens >= 1` must hold, got {tokens!r}; "
            "without it no speed can be told."
        )
    return tokens
