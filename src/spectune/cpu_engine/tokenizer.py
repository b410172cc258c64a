"""Byte-level BPE: text to ids by the `tokenizers` library, ids to text byte by byte."""

import codecs
from pathlib import Path

from tokenizers import Tokenizer as BpeTokenizer


class Tokenizer:
    """The bundled models' tokenizer.

    Attributes:
        longest_token: bytes of text that one token stands for, at most.
    """

    def __init__(self, file: Path) -> None:
        self._bpe: BpeTokenizer = BpeTokenizer.from_file(str(file))
        self._pieces = _pieces(self._bpe)
        special = [token.content.encode() for token in self._bpe.get_added_tokens_decoder().values()]
        self.longest_token = max(map(len, [*self._pieces, *special]))

    @property
    def vocab_size(self) -> int:
        """Number of tokens."""
        return len(self._pieces)

    def encode(self, text: str) -> list[int]:
        """Token ids of a text; nothing is added in front."""
        ids: list[int] = self._bpe.encode(text, add_special_tokens=False).ids
        return ids

    def decoder(self) -> "StreamDecoder":
        """A decoder for one stream of tokens."""
        return StreamDecoder(self._pieces)


class StreamDecoder:
    """Turns tokens into text as they come; holds back bytes that are not whole characters yet."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, ids: list[int], *, final: bool = False) -> str:
        """The text that `ids` add; `final` flushes what was held back."""
        return self._utf8.decode(b"".join([self._pieces[i] for i in ids]), final)


def _pieces(bpe: BpeTokenizer) -> list[bytes]:
    """Bytes of every token; special tokens are empty."""
    alphabet = _byte_alphabet()
    special = {i for i, token in bpe.get_added_tokens_decoder().items() if token.special}
    pieces = []
    for i in range(bpe.get_vocab_size()):
        token = bpe.id_to_token(i) or ""
        pieces.append(b"" if i in special else bytes(alphabet[c] for c in token))
    return pieces


def _byte_alphabet() -> dict[str, int]:
    """GPT-2's printable stand-ins for bytes: printable Latin-1 stands for itself, the rest for 256 + n."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    alphabet = {chr(byte): byte for byte in printable}
    others = [byte for byte in range(256) if byte not in printable]
    alphabet.update({chr(256 + n): byte for n, byte in enumerate(others)})
    return alphabet
