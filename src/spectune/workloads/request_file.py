"""A user's own requests: JSON lines → distinct prompts, with messages that name file, line and rule."""

import json
import math
from collections.abc import Mapping
from typing import NoReturn, TypeGuard

from spectune.errors import ConfigError
from spectune.workloads.prompts import CHAT, COMPLETIONS, Prompt, PromptPool, pool_of

DEFAULT_MAX_TOKENS = 128
_LIMIT_KEYS = ("max_completion_tokens", "max_tokens")
_OURS = ("stream", "stream_options")


def request_file_pool(jsonl: str, *, name: str) -> PromptPool:
    """The workload of a user's own requests, one OpenAI request body a line.

    Args:
        jsonl: text of the file; blank lines are passed over.
        name: its name, for messages.

    Raises:
        ConfigError: a line is malformed, or there is none.
    """
    prompts, notes = read_requests(jsonl, name=name)
    return pool_of(prompts, name=name, kind="file", temperature=None, seed=0, notes=notes)


def read_requests(jsonl: str, *, name: str) -> tuple[tuple[Prompt, ...], tuple[str, ...]]:
    """The distinct requests in the file's order, and notes for the user.

    Args:
        jsonl: one OpenAI request body a line; blank lines are passed over.
        name: the file's name, for messages.

    Raises:
        ConfigError: a line is malformed, or there is none.
    """
    prompts: dict[str, Prompt] = {}
    repeats = unlimited = forced = 0
    for number, line in enumerate(jsonl.split("\n"), start=1):  # not splitlines: U+2028 may stand in a text
        if not line.strip():
            continue
        request = _Line(name, number, line)
        key = request.prompt_key()
        repeats += key in prompts
        unlimited += request.max_tokens() is None
        forced += bool(request.body.get("ignore_eos"))
        prompts.setdefault(key, request.prompt())
    if not prompts:
        raise ConfigError(
            f"{name}: `at least one request` must be in it, got none; "
            "write one OpenAI request body (with messages or prompt) a line."
        )
    notes = (
        (repeats, "requests repeat an earlier prompt and are left out (a prompt is sent once per setting)."),
        (unlimited, f"requests have no max_tokens; it is set to {DEFAULT_MAX_TOKENS}."),
        (forced, "requests set ignore_eos, which distorts acceptance."),
    )
    return tuple(prompts.values()), tuple(f"{name}: {count} {note}" for count, note in notes if count)


class _Line:
    """One line of the file, checked piece by piece."""

    def __init__(self, name: str, number: int, line: str) -> None:
        self._place = f"{name} line {number}"
        try:
            body: object = json.loads(line)
        except (ValueError, RecursionError) as error:
            self._refuse("each line is JSON", line[:80], f"mend it ({error!s:.60})")
        if "\\ud" in line.lower() and not _is_whole_text(body):
            self._refuse("a text has whole characters", line[:80], "mend its \\ud... escapes")
        if not isinstance(body, dict):
            self._refuse(
                "each line is a JSON object", line[:80], 'write {"messages": [...]} or {"prompt": "..."}'
            )
        self.body: Mapping[str, object] = body
        self._check()

    def prompt_key(self) -> str:
        """What makes two requests the same prompt."""
        return json.dumps([self.body.get("messages"), self.body.get("prompt")], sort_keys=True)

    def prompt(self) -> Prompt:
        """The request without what the load client sets itself."""
        max_tokens = self.max_tokens() or DEFAULT_MAX_TOKENS
        body = {key: value for key, value in self.body.items() if key not in _OURS}
        if self.max_tokens() is None:
            body["max_tokens"] = max_tokens
        path = CHAT if "messages" in self.body else COMPLETIONS
        return Prompt(path=path, body=json.dumps(body, ensure_ascii=False), max_tokens=max_tokens)

    def max_tokens(self) -> int | None:
        """The output limit, None where the request has none."""
        for key in _LIMIT_KEYS:
            value = self.body.get(key)
            if value is not None:
                if not _is_whole(value) or value < 1:
                    self._refuse(f"{key} is a whole number >= 1", value, "correct it or leave it out")
                return value
        return None

    def _check(self) -> None:
        if ("messages" in self.body) == ("prompt" in self.body):
            keys = sorted(self.body)
            self._refuse("a request has either messages or prompt", keys, "give exactly one of them")
        if "messages" in self.body:
            self._check_messages(self.body["messages"])
        else:
            self._check_prompt(self.body["prompt"])
        self.max_tokens()
        for key in ("n", "best_of"):
            if self.body.get(key) not in (None, 1):
                self._refuse(f"{key} is 1", self.body[key], "spectune measures one answer per request")
        temperature = self.body.get("temperature")
        if temperature is not None and not _is_temperature(temperature):
            self._refuse("temperature is a finite number >= 0", temperature, "correct it or leave it out")

    def _check_messages(self, messages: object) -> None:
        if not isinstance(messages, list) or not messages:
            self._refuse(
                "messages is a list that is not empty", messages, 'write [{"role": ..., "content": ...}]'
            )
        for message in messages:
            if not isinstance(message, dict) or not isinstance(message.get("role"), str):
                self._refuse("each message is an object with a role", message, "add the role")

    def _check_prompt(self, prompt: object) -> None:
        is_text = isinstance(prompt, str) and prompt != ""
        is_ids = isinstance(prompt, list) and bool(prompt) and all(_is_whole(token) for token in prompt)
        if not is_text and not is_ids:
            self._refuse("prompt is a text or a list of token ids", prompt, "give one prompt a line")

    def _refuse(self, rule: str, value: object, next_step: str) -> NoReturn:
        raise ConfigError(f"{self._place}: `{rule}` must hold, got {value!r:.100}; {next_step}.")


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_temperature(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf


def _is_whole_text(body: object) -> bool:
    """Whether it can be written as UTF-8: JSON can spell half a character."""
    try:
        json.dumps(body, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True
