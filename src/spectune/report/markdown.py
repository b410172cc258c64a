"""Document to Markdown."""

from typing import assert_never

from spectune.domain.text import printable
from spectune.report.document import Block, Code, Document, Items, Paragraph, Table


def render_markdown(document: Document) -> str:
    """The document as Markdown, ending with a line break."""
    parts = [f"# {_escaped(document.title)}", *(_block(block) for block in document.lead)]
    for section in document.sections:
        parts.append(f"## {_escaped(section.title)}")
        parts.extend(_block(block) for block in section.blocks)
    return printable("\n\n".join(parts)) + "\n"


def _block(block: Block) -> str:
    match block:
        case Paragraph(text=text):
            return _escaped(text)
        case Items(items=items):
            return "\n".join(f"- {_escaped(item)}" for item in items)
        case Code(text=text):
            fence = "````" if "```" in text else "```"
            return f"{fence}text\n{text}\n{fence}"
        case Table():
            return _table(block)
        case _:
            assert_never(block)


def _table(table: Table) -> str:
    rule = ["---", *("---:" for _ in table.head[1:])]
    return "\n".join(
        "| " + " | ".join(cells) + " |"
        for cells in ([_cell(c) for c in table.head], rule, *([_cell(c) for c in row] for row in table.rows))
    )


def _cell(text: str) -> str:
    return _escaped(text.strip()).replace("|", "\\|").replace("\n", " ")


def _escaped(text: str) -> str:
    """The text with the characters Markdown would read as markup escaped."""
    for mark in ("\\", "*", "_", "`", "<", "["):
        text = text.replace(mark, "\\" + mark)
    return text
