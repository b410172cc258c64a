"""Tool calls of a streamed answer, put together from their pieces. Pure.

OpenAI's form: `delta.tool_calls` is a list of pieces; a piece names its call by `index`, the first piece of a
call has the function's name, and the texts of `arguments` join in order. An answer in one piece has the same
list without indexes, in its order, and some servers stream without them: there a new `id` or a second name
opens a call. The older form has one `function_call`.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from spectune.domain.measurement import ToolCall
from spectune.domain.text import whole_characters


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    """A piece of a call.

    Attributes:
        index: of its call; None where the server gives none.
        place: in a list of several pieces; None in a list of one.
        id: of its call, "" where the piece has none.
        function: what it says of the function.
    """

    index: int | None
    place: int | None = None
    id: str = ""
    function: Mapping[str, object]

    @property
    def name(self) -> str:
        """The function's, "" where the piece does not name it."""
        name = self.function.get("name")
        return name if isinstance(name, str) else ""


@dataclass(slots=True)
class ToolCallPieces:
    """What was read of an answer's calls so far, by index; `ids` has each id's, `last` the newest piece's."""

    names: dict[int, str] = field(default_factory=dict)
    arguments: dict[int, list[str]] = field(default_factory=dict)
    ids: dict[str, int] = field(default_factory=dict)
    last: int = 0

    def take(self, delta: Mapping[str, object]) -> bool:
        """Adds a delta's pieces; whether there were any."""
        has_any = False
        for piece in _pieces(delta):
            has_any = True
            index = self.last = self._index_of(piece)
            if piece.id:
                self.ids.setdefault(piece.id, index)
            if piece.name:
                self.names.setdefault(index, piece.name)
            texts, text = self.arguments.setdefault(index, []), piece.function.get("arguments")
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

    def _index_of(self, piece: _Piece) -> int:
        """The call that a piece belongs to."""
        if piece.index is not None:
            return piece.index
        if piece.id in self.ids:
            return self.ids[piece.id]
        if piece.id or (piece.name and self.last in self.names):
            return max(self.arguments, default=-1) + 1
        return self.last if piece.name or piece.place is None else piece.place


def _pieces(delta: Mapping[str, object]) -> Iterator[_Piece]:
    """The pieces of a delta, in order."""
    found = delta.get("tool_calls")
    pieces = found if isinstance(found, list) else []
    for place, piece in enumerate(pieces):
        if isinstance(piece, dict):
            index, own_id, function = piece.get("index"), piece.get("id"), piece.get("function")
            yield _Piece(
                index=index if isinstance(index, int) and not isinstance(index, bool) else None,
                place=place if len(pieces) > 1 else None,
                id=own_id if isinstance(own_id, str) else "",
                function=function if isinstance(function, dict) else {},
            )
    older = delta.get("function_call")
    if isinstance(older, dict):
        yield _Piece(index=0, function=older)
