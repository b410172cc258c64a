"""Document to plain text of at most 100 columns, without colour."""

import textwrap
from itertools import pairwise
from typing import assert_never

from spectune.domain.text import printable
from spectune.report.document import Block, Code, Document, Items, Paragraph, Table

WIDTH = 100
_GAP = "  "


def render_terminal(document: Document) -> str:
    """The document as text, ending with a line break."""
    parts = [document.title, *(_block(block) for block in document.lead)]
    parts.extend(
        section.title + "\n" + "\n".join(_block(block) for block in section.blocks)
        for section in document.sections
    )
    return printable("\n\n".join(parts)) + "\n"


def _block(block: Block) -> str:
    match block:
        case Paragraph(text=text):
            return _wrapped(text, "  ", "  ")
        case Items(items=items):
            return "\n".join(_wrapped(item, "  - ", "    ") for item in items)
        case Code(text=text):
            return textwrap.indent(text, "    ")
        case Table():
            return "\n\n".join(_table(part) for part in _split(block))
        case _:
            assert_never(block)


def _wrapped(text: str, first: str, rest: str) -> str:
    return textwrap.fill(text, WIDTH, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)


def _widths(table: Table) -> list[int]:
    return [max(len(row[column]) for row in (table.head, *table.rows)) for column in range(len(table.head))]


def _split(table: Table) -> list[Table]:
    """Parts that fit the width, each with the leading columns."""
    widths = [width + len(_GAP) for width in _widths(table)]
    fixed = sum(widths[: table.first_fixed])
    starts, used = [table.first_fixed], fixed
    for column in range(table.first_fixed, len(widths)):
        if used + widths[column] > WIDTH and column > starts[-1]:
            starts.append(column)
            used = fixed
        used += widths[column]
    return [_columns(table, start, end) for start, end in pairwise([*starts, len(widths)])]


def _columns(table: Table, start: int, end: int) -> Table:
    def cut(row: tuple[str, ...]) -> tuple[str, ...]:
        return row[: table.first_fixed] + row[start:end]

    return Table(
        head=cut(table.head), rows=tuple(cut(row) for row in table.rows), first_fixed=table.first_fixed
    )


def _table(table: Table) -> str:
    widths = _widths(table)

    def line(row: tuple[str, ...]) -> str:
        cells = [row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))]
        return (_GAP + _GAP.join(cells)).rstrip()

    rule = _GAP + _GAP.join("-" * width for width in widths)
    return "\n".join([line(table.head), rule, *(line(row) for row in table.rows)])
