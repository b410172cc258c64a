"""JSON answers read strictly: a missing or mistyped key is an error that names endpoint and key."""

import json
from collections.abc import Mapping

from spectune.domain.text import whole_characters
from spectune.errors import ProtocolError


class JsonAnswer:
    """A JSON object that an endpoint gave, read key by key."""

    def __init__(self, text: str, *, source: str) -> None:
        """Reads the text; raises ProtocolError when it is no JSON object."""
        self._source = source
        try:
            parsed: object = json.loads(text)
        except (ValueError, RecursionError):
            raise ProtocolError(f"{source}: `the answer is JSON` must hold, got {text[:120]!r}.") from None
        if not isinstance(parsed, dict):
            raise ProtocolError(f"{source}: `the answer is a JSON object` must hold, got {text[:120]!r}.")
        self._values: Mapping[str, object] = parsed

    def optional_int(self, key: str) -> int | None:
        """A whole number, or None where it is null or missing."""
        value = self._values.get(key)
        if value is None or (isinstance(value, int) and not isinstance(value, bool)):
            return value
        raise self._mistyped(key, "a whole number or null", value)

    def optional_text(self, key: str) -> str | None:
        """A string, or None where it is null or missing."""
        value = self._values.get(key)
        if value is None:
            return None
        if isinstance(value, str):
            return whole_characters(value)
        raise self._mistyped(key, "a string or null", value)

    def optional_object(self, key: str) -> "JsonAnswer | None":
        """The object at this key, or the first of a list of them; None where there is none."""
        value = self._values.get(key)
        if isinstance(value, list):
            value = value[0] if value else None
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self._mistyped(key, "an object, a list of them or null", value)
        return JsonAnswer(json.dumps(value), source=f"{self._source} {key}")

    def has(self, key: str) -> bool:
        """Whether the key is there, null or not."""
        return key in self._values

    def value(self, key: str) -> object:
        """Whatever is there; None where it is missing."""
        return self._values.get(key)

    def _mistyped(self, key: str, wanted: str, value: object) -> ProtocolError:
        return ProtocolError(f"{self._source}: `{key} is {wanted}` must hold, got {value!r:.80}.")
