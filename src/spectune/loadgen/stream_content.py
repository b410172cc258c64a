"""What a completion's stream said, read after the run from raw bytes and their arrival times. Pure."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeGuard

from spectune.domain.measurement import ToolCall
from spectune.domain.text import whole_characters
from spectune.loadgen.sse import SseParser
from spectune.loadgen.tool_calls import ToolCallPieces

_DONE = b"[DONE]"
_MOST_TOKENS = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamContent:
    """The facts of one stream.

    Attributes:
        chunk_times_s: arrival of each chunk that carried content.
        chunk_tokens: cumulative output tokens at those chunks; empty unless every one of them said so.
        prompt_tokens: from usage, or None.
        output_tokens: from the last usage, or None.
        finish_reason: the engine's word, or "".
        text: what was generated, calls of tools apart.
        tool_calls: in order.
        error: "" when the stream is complete and readable.
        is_unreadable: whether the error is that the bytes make no sense.
    """

    chunk_times_s: tuple[float, ...] = ()
    chunk_tokens: tuple[int, ...] = ()
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    finish_reason: str = ""
    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    error: str = ""
    is_unreadable: bool = False


def read_stream(pieces: Iterable[tuple[float, bytes]]) -> StreamContent:
    """Reads a whole stream.

    A chunk carries content when it has text, reasoning, tool calls, or more output tokens than the one
    before: a token may show no text yet (half of a UTF-8 character).

    Args:
        pieces: (arrival, bytes) in order, split anywhere.
    """
    parser, reading = SseParser(), _Reading()
    for at_s, piece in pieces:
        for event in parser.feed(piece):
            if not reading.is_done and not reading.error:
                reading.take(at_s, event)
    return reading.content(is_complete=parser.is_between_events)


@dataclass(slots=True)
class _Reading:
    """What was read so far."""

    times_s: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    calls: ToolCallPieces = field(default_factory=ToolCallPieces)
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    finish_reason: str = ""
    is_done: bool = False
    error: str = ""
    is_unreadable: bool = False

    def take(self, at_s: float, event: bytes) -> None:
        """Adds one event."""
        if event == _DONE:
            self.is_done = True
            return
        try:
            chunk: object = json.loads(event)
        except (ValueError, RecursionError):
            chunk = None
        if not isinstance(chunk, dict):
            self._refuse("an event is a JSON object", f"{event[:80]!r}")
        elif chunk.get("error"):
            self.error = f"error in the stream: {json.dumps(chunk['error'])[:200]}"
        else:
            self._take_chunk(at_s, chunk)

    def _take_chunk(self, at_s: float, chunk: Mapping[str, object]) -> None:
        tokens = self._take_usage(chunk.get("usage"))
        choices = chunk.get("choices")
        if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
            return
        choice: Mapping[str, object] = choices[0]
        reason = choice.get("finish_reason")
        if isinstance(reason, str):
            self.finish_reason = reason
        text, has_content = _content(choice, self.calls)
        if has_content or (tokens is not None and tokens > (self.tokens[-1] if self.tokens else 0)):
            self.times_s.append(at_s)
            self.texts.append(text)
            if tokens is not None:
                self.tokens.append(tokens)

    def _take_usage(self, usage: object) -> int | None:
        """Output tokens so far as this chunk tells them."""
        if not isinstance(usage, dict):
            return None
        prompt, output = usage.get("prompt_tokens"), usage.get("completion_tokens")
        if not (_is_count(prompt) and _is_count(output)):
            self._refuse("usage counts tokens in whole numbers", f"{prompt!r:.40} and {output!r:.40}")
            return None
        self.prompt_tokens = self.prompt_tokens if prompt is None else prompt
        if output is None:
            return None
        if output < (self.output_tokens or 0):
            self._refuse("usage.completion_tokens never falls", f"{output} after {self.output_tokens}")
            return None
        self.output_tokens = output
        return output

    def _refuse(self, rule: str, value: str) -> None:
        self.error = f"unreadable stream: `{rule}` must hold, got {value}"
        self.is_unreadable = True

    def content(self, *, is_complete: bool) -> StreamContent:
        """The result at the end of the stream."""
        error = self.error
        if not error and not self.is_done and not self.finish_reason:
            error = "the stream ended early, without a finish reason"
            self.is_unreadable = not is_complete or not self.times_s
        if not error and self.output_tokens is None:
            error = "no token count: `usage` must come with stream_options.include_usage"
            self.is_unreadable = True
        is_continuous = len(self.tokens) == len(self.times_s)
        return StreamContent(
            chunk_times_s=tuple(self.times_s),
            chunk_tokens=tuple(self.tokens) if is_continuous else (),
            prompt_tokens=self.prompt_tokens,
            output_tokens=self.output_tokens,
            finish_reason=whole_characters(self.finish_reason) if not error else "",
            text=whole_characters("".join(self.texts)),
            tool_calls=self.calls.calls(),
            error=error,
            is_unreadable=self.is_unreadable and bool(error),
        )


def _is_count(value: object) -> TypeGuard[int | None]:
    """Whether it is a token count that can be true, or not told."""
    if value is None:
        return True
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_TOKENS


def _content(choice: Mapping[str, object], calls: ToolCallPieces) -> tuple[str, bool]:
    """The chunk's text, and whether it carries anything generated; pieces of calls go to `calls`.

    An answer that comes in one piece has a `message` in the place of a `delta`.
    """
    text = choice.get("text")
    if isinstance(text, str):
        return text, text != ""
    delta = choice.get("delta", choice.get("message"))
    if not isinstance(delta, dict):
        return "", False
    parts = [delta.get("reasoning_content"), delta.get("reasoning"), delta.get("content")]
    text = "".join(part for part in parts if isinstance(part, str))
    has_calls = calls.take(delta)
    return text, bool(text) or has_calls
