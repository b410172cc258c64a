"""OpenAI answers and server-sent events as bytes; by hand, as there are thousands of events a second."""

import json
from dataclasses import dataclass

DONE = b"data: [DONE]\n\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Token counts of an answer."""

    prompt: int
    completion: int
    cached: int

    @property
    def text(self) -> str:
        """As JSON."""
        return (
            f'{{"prompt_tokens":{self.prompt},"completion_tokens":{self.completion},'
            f'"total_tokens":{self.prompt + self.completion},'
            f'"prompt_tokens_details":{{"cached_tokens":{self.cached}}}}}'
        )


class AnswerWriter:
    """Writes the answer to one request."""

    def __init__(self, *, answer_id: str, created: int, model: str, is_chat: bool) -> None:
        self._is_chat = is_chat
        kind = "chat.completion" if is_chat else "text_completion"
        self._whole_kind = kind
        stream_kind = "chat.completion.chunk" if is_chat else kind
        self._rest = f'"created":{created},"model":{json.dumps(model)}'
        self._id = f'"id":"{answer_id}"'
        self._head = f'data: {{{self._id},"object":"{stream_kind}",{self._rest},"choices":['

    def opening(self) -> bytes:
        """The first event of a chat stream, which names the role; b"" for completions."""
        if not self._is_chat:
            return b""
        choice = '{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}'
        return f"{self._head}{choice}]}}\n\n".encode()

    def event(self, text: str, finish: str, usage: Usage | None) -> bytes:
        """An event that adds `text`; `finish` is "" until the last one."""
        reason = f'"{finish}"' if finish else "null"
        body = json.dumps(text)
        if self._is_chat:
            choice = f'{{"index":0,"delta":{{"content":{body}}},"finish_reason":{reason}}}'
        else:
            choice = f'{{"index":0,"text":{body},"logprobs":null,"finish_reason":{reason}}}'
        tail = f',"usage":{usage.text}' if usage else ""
        return f"{self._head}{choice}]{tail}}}\n\n".encode()

    def usage_event(self, usage: Usage) -> bytes:
        """The event without choices that carries the usage."""
        return f'{self._head}],"usage":{usage.text}}}\n\n'.encode()

    def whole(self, text: str, finish: str, usage: Usage) -> bytes:
        """An answer that is not streamed."""
        body = json.dumps(text)
        if self._is_chat:
            choice = (
                f'{{"index":0,"message":{{"role":"assistant","content":{body}}},"finish_reason":"{finish}"}}'
            )
        else:
            choice = f'{{"index":0,"text":{body},"logprobs":null,"finish_reason":"{finish}"}}'
        return (
            f'{{{self._id},"object":"{self._whole_kind}",{self._rest},'
            f'"choices":[{choice}],"usage":{usage.text}}}'
        ).encode()


def error_body(message: str, kind: str, param: str | None = None) -> bytes:
    """OpenAI's error object."""
    return json.dumps({"error": {"message": message, "type": kind, "param": param, "code": None}}).encode()
