"""A report as data: sections of paragraphs, lists and tables. Renderers know nothing of studies."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Paragraph:
    """Running text, wrapped by the renderer."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Items:
    """A list, one line of thought each."""

    items: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """Text to copy, never wrapped."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table; the first column is left-aligned, the others right-aligned.

    Attributes:
        head: column titles.
        rows: cells; each row has as many as `head`.
        first_fixed: leading columns repeated when a wide table is split.
    """

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    first_fixed: int = 1

    def __post_init__(self) -> None:
        """Checks the shape."""
        assert all(len(row) == len(self.head) for row in self.rows), "every row has a cell per column"


Block = Paragraph | Items | Code | Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A titled part."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A whole report."""

    title: str
    lead: tuple[Block, ...]
    sections: tuple[Section, ...]
