from hypothesis import given
from hypothesis import strategies as st

from spectune.report.document import Code, Document, Items, Paragraph, Section, Table
from spectune.report.terminal import WIDTH, render_terminal


def document(*blocks: Paragraph | Items | Code | Table) -> Document:
    return Document(title="title", lead=(), sections=(Section(title="section", blocks=blocks),))


def test_columns_line_up_first_left_others_right() -> None:
    text = render_terminal(
        document(Table(head=("setting", "at 1"), rows=(("off", "5"), ("eagle 10", "100"))))
    )
    assert text.splitlines()[3:] == [
        "  setting   at 1",
        "  --------  ----",
        "  off          5",
        "  eagle 10   100",
    ]


def test_a_wide_table_is_split_and_repeats_its_first_column() -> None:
    head = ("setting", *(f"at {level}" for level in range(1000, 1030)))
    text = render_terminal(document(Table(head=head, rows=(("off", *["123.4"] * 30),))))
    assert max(map(len, text.splitlines())) <= WIDTH
    assert text.count("setting") == text.count("off") > 1
    assert text.count("123.4") == 30


@given(st.lists(st.text(alphabet="abc ", max_size=40), min_size=1, max_size=10))
def test_paragraphs_and_items_fit_the_width(words: list[str]) -> None:
    text = " ".join(words)
    rendered = render_terminal(document(Paragraph(text=text), Items(items=(text,))))
    assert max(map(len, rendered.splitlines())) <= WIDTH


def test_code_is_not_wrapped() -> None:
    line = "x" * 150
    assert line in render_terminal(document(Code(text=line)))


def test_there_are_no_escape_sequences() -> None:
    text = render_terminal(document(Table(head=("a", "b"), rows=(("1", "2"),)), Paragraph(text="text")))
    assert "\x1b" not in text


def test_what_a_server_says_commands_no_terminal() -> None:
    assert "\x1b" not in render_terminal(document(Paragraph(text="engine \x1b[31m0.1\x1b[0m")))
