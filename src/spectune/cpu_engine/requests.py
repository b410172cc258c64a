"""OpenAI request bodies: read strictly, refused with an OpenAI-style error.

Nothing is dropped silently: a parameter this engine has no code for is refused unless its value is the
one that changes nothing.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

Json = Mapping[str, object]
DEFAULT_MAX_TOKENS = 16
MAX_STOPS = 4
_NEUTRAL: dict[str, tuple[object, ...]] = {
    "n": (1, None), "best_of": (1, None), "echo": (False, None), "logprobs": (None, False),
    "top_logprobs": (None, 0), "suffix": (None, ""), "presence_penalty": (0, None),
    "frequency_penalty": (0, None), "repetition_penalty": (1, None), "logit_bias": (None, {}),
    "min_p": (0, None), "tools": (None, []), "tool_choice": (None, "none"), "response_format": (None,),
}  # fmt: skip
_KNOWN = {
    "model", "prompt", "messages", "max_tokens", "max_completion_tokens", "temperature", "top_p", "top_k",
    "seed", "stop", "stream", "stream_options", "ignore_eos", "user", *_NEUTRAL,
}  # fmt: skip


class BadRequest(Exception):
    """A request the engine refuses: HTTP 400 with OpenAI's error body."""

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """A readable request.

    Attributes:
        text: the prompt's text, or None when `ids` are given.
        ids: the prompt's token ids, or None.
        is_chat: answered in the chat form.
        max_tokens: limit of output tokens; None fills the context.
        temperature: 0 is greedy.
        top_p: share of probability kept.
        top_k: tokens kept; 0 for all.
        seed: of the random numbers; None for any.
        stops: texts that end the output, not part of it.
        ignore_eos: whether the end-of-text token is ignored.
        stream: answered as server-sent events.
        include_usage: a last event carries the usage.
        continuous_usage: every event carries it.
    """

    text: str | None
    ids: tuple[int, ...] | None
    is_chat: bool
    max_tokens: int | None
    temperature: float
    top_p: float
    top_k: int
    seed: int | None
    stops: tuple[str, ...]
    ignore_eos: bool
    stream: bool
    include_usage: bool
    continuous_usage: bool


def read_generation(raw: bytes, *, is_chat: bool, vocab_size: int) -> Generation:
    """Reads a completion or chat body; raises BadRequest."""
    body = _read_object(raw)
    for name, value in body.items():
        if name not in _KNOWN:
            raise BadRequest(f"`{name}` is not a parameter of this engine; leave it out.", name)
        if name in _NEUTRAL and value not in _NEUTRAL[name]:
            raise BadRequest(f"`{name}` is not supported, got {value!r}; leave it out.", name)
    text, ids = _chat_prompt(body) if is_chat else _prompt(body, vocab_size)
    options = _stream_options(body)
    limit = body.get("max_completion_tokens")
    limit = body.get("max_tokens") if limit is None else limit
    default = None if is_chat else DEFAULT_MAX_TOKENS
    return Generation(
        text=text,
        ids=ids,
        is_chat=is_chat,
        max_tokens=default if limit is None else _integer("max_tokens", limit, 1),
        temperature=_number(body, "temperature", 1.0, low=0.0, high=2.0),
        top_p=_number(body, "top_p", 1.0, low=1e-6, high=1.0),
        top_k=_top_k(body.get("top_k")),
        seed=None if body.get("seed") is None else _integer("seed", body["seed"], -(2**63), 2**63 - 1),
        stops=_stops(body.get("stop")),
        ignore_eos=_flag(body, "ignore_eos"),
        stream=_flag(body, "stream"),
        include_usage=_flag(options, "include_usage") or _flag(options, "continuous_usage_stats"),
        continuous_usage=_flag(options, "continuous_usage_stats"),
    )


def _read_object(raw: bytes) -> Json:
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"the body is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise BadRequest("the body must be a JSON object.")
    return body


def _prompt(body: Json, vocab_size: int) -> tuple[str | None, tuple[int, ...] | None]:
    prompt = body.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str | list):
        prompt = prompt[0]
    if isinstance(prompt, str) and prompt:
        return _whole_characters(prompt, "prompt"), None
    if isinstance(prompt, list) and prompt and all(_is_token(item, vocab_size) for item in prompt):
        return None, tuple(prompt)
    raise BadRequest(
        f"`prompt` must be a non-empty text or a list of token ids from 0 to {vocab_size - 1}.", "prompt"
    )


def _is_token(item: object, vocab_size: int) -> bool:
    return isinstance(item, int) and not isinstance(item, bool) and 0 <= item < vocab_size


def _chat_prompt(body: Json) -> tuple[str, None]:
    """The messages' contents, one after another: the bundled model knows no chat format."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise BadRequest("`messages` must be a non-empty list.", "messages")
    texts = [_content(message, n) for n, message in enumerate(messages)]
    text = "\n".join(texts) + "\n"
    if not text.strip():
        raise BadRequest("`messages` must hold some text.", "messages")
    return _whole_characters(text, "messages"), None


def _whole_characters(text: str, name: str) -> str:
    """The text, refused when it has half a surrogate pair: JSON can write one, UTF-8 cannot."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        half = text[error.start]
        raise BadRequest(f"`{name}` must be whole characters, got half of one: {half!r}.", name) from error
    return text


def _content(message: object, n: int) -> str:
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        raise BadRequest(f"`messages[{n}]` must be an object with role and content.", "messages")
    content = message.get("content")
    if isinstance(content, list):
        parts = [part.get("text") if isinstance(part, dict) else None for part in content]
        content = "".join(part for part in parts if isinstance(part, str)) if all(parts) else None
    if not isinstance(content, str):
        raise BadRequest(f"`messages[{n}].content` must be text.", "messages")
    return content


def _stream_options(body: Json) -> Json:
    options = body.get("stream_options")
    if options is None:
        return {}
    if not isinstance(options, dict):
        raise BadRequest("`stream_options` must be an object.", "stream_options")
    if not _flag(body, "stream"):
        raise BadRequest("`stream_options` needs `stream: true`.", "stream_options")
    return options


def _number(body: Json, name: str, default: float, *, low: float, high: float) -> float:
    value = body.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise BadRequest(f"`{low:g} <= {name} <= {high:g}` must hold, got {value!r}.", name)
    return float(value)


def _integer(name: str, value: object, low: int, high: int = 2**31 - 1) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise BadRequest(f"`{name}` must be a whole number from {low} to {high}, got {value!r:.80}.", name)
    return value


def _top_k(value: object) -> int:
    if value is None or value == -1:
        return 0
    return _integer("top_k", value, 0)


def _stops(value: object) -> tuple[str, ...]:
    stops = [value] if isinstance(value, str) else value
    if stops is None:
        return ()
    if not isinstance(stops, list) or len(stops) > MAX_STOPS or not all(_is_stop(s) for s in stops):
        raise BadRequest(f"`stop` must be a non-empty text or up to {MAX_STOPS} of them.", "stop")
    return tuple(stops)


def _is_stop(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _flag(body: Json, name: str) -> bool:
    value = body.get(name)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise BadRequest(f"`{name}` must be true or false, got {value!r}.", name)
    return value
