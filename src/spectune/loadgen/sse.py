"""Server-sent events: bytes in, events' data out. Pure, incremental, independent of how bytes are split.

Format: the WHATWG event stream (lines end with LF, CR or CRLF; `data` fields of one event join with LF;
lines that begin with a colon are comments). Fields other than `data` are not used here.
"""

_BOM = b"\xef\xbb\xbf"


class SseParser:
    r"""Turns pieces of a byte stream into the data of complete events.

    >>> parser = SseParser()
    >>> parser.feed(b'data: {"a"'), parser.feed(b": 1}\n\ndata: [DONE]\n\n")
    ([], [b'{"a": 1}', b'[DONE]'])
    """

    __slots__ = ("_data", "_is_first_line", "_partial_line", "_skip_newline")

    def __init__(self) -> None:
        """A parser at the start of a stream."""
        self._partial_line = b""
        self._data: list[bytes] = []
        self._skip_newline = False
        self._is_first_line = True

    @property
    def is_between_events(self) -> bool:
        """Whether no event was begun and left incomplete."""
        return not self._partial_line and not self._data

    def feed(self, piece: bytes) -> list[bytes]:
        """The data of each event that this piece completes."""
        if not piece:
            return []
        if self._skip_newline and piece.startswith(b"\n"):
            piece = piece[1:]
        self._skip_newline = piece.endswith(b"\r")
        text = self._partial_line + piece
        if b"\r" in text:
            text = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, self._partial_line = text.split(b"\n")
        return [event for line in lines if (event := self._take_line(line)) is not None]

    def _take_line(self, line: bytes) -> bytes | None:
        """The event's data when this line ends an event that has some."""
        if self._is_first_line:
            self._is_first_line = False
            line = line.removeprefix(_BOM)
        if line:
            field, _, value = line.partition(b":")
            if field == b"data":
                self._data.append(value.removeprefix(b" "))
            return None
        if not self._data:
            return None
        event = b"\n".join(self._data)
        self._data.clear()
        return event
