"""Tool calls of a streamed answer, put together from their pieces. Pure.

OpenAI's form: `delta.tool_calls` is a list of pieces; a piece names its call by `index`, the first piece of a
call has the function's name, and the texts of `arguments` join in order. An answer in one piece has the same
list without indexes, in its order; the older form has one `function_call`.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from spectune.domain.measurement import ToolCall
from spectune.domain.text import whole_characters


@dataclass(slots=True)
class ToolCallPieces:
    """What was read of an answer's calls so far, by index."""

    names: dict[int, str] = field(default_factory=dict)
    arguments: dict[int, list[str]] = field(default_factory=dict)

    def take(self, delta: Mapping[str, object]) -> bool:
        """Adds a delta's pieces; whether there were any."""
        has_any = False
        for index, function in _functions(delta):
            has_any = True
            texts = self.arguments.setdefault(index, [])
            name, text = function.get("name"), function.get("arguments")
            if isinstance(name, str) and name:
                self.names.setdefault(index, name)
            if isinstance(text, str):
                texts.append(text)
            elif text is not None:
                texts.append(json.dumps(text, ensure_ascii=False))
        return has_any

    def calls(self) -> tuple[ToolCall, ...]:
        """The calls by ascending index."""
        return tuple(
            ToolCall(
                name=whole_characters(self.names.get(index, "")),
                arguments=whole_characters("".join(self.arguments[index])),
            )
            for index in sorted(self.arguments)
        )


def _functions(delta: Mapping[str, object]) -> Iterator[tuple[int, Mapping[str, object]]]:
    """(index of the call, what the piece says of its function)."""
    pieces = delta.get("tool_calls")
    for place, piece in enumerate(pieces if isinstance(pieces, list) else []):
        if isinstance(piece, dict):
            index, function = piece.get("index"), piece.get("function")
            if not isinstance(index, int) or isinstance(index, bool):
                index = place
            yield index, function if isinstance(function, dict) else {}
    older = delta.get("function_call")
    if isinstance(older, dict):
        yield 0, older
