"""Text from outside as text that can be stored and sent."""


def whole_characters(text: str) -> str:
    r"""The text with surrogate pairs joined and lone halves replaced.

    JSON can spell half a character (`"\ud83d"`), and some servers split one over two stream chunks; UTF-8,
    and with it SQLite and every file we write, has no halves.

    >>> whole_characters("\ud83d\ude00 \ud83d")
    '😀 \ufffd'
    """
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
