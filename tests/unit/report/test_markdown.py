from spectune.report.document import Code, Document, Items, Paragraph, Section, Table
from spectune.report.markdown import render_markdown


def test_every_block_has_its_markdown() -> None:
    table = Table(head=("setting", "at 1"), rows=(("a|b", "5*"),))
    text = render_markdown(
        Document(
            title="title",
            lead=(Items(items=("one", "two")),),
            sections=(
                Section(title="part", blocks=(table, Paragraph(text="text"), Code(text="--flag *x*"))),
            ),
        )
    )
    assert text == (
        "# title\n\n- one\n- two\n\n## part\n\n"
        "| setting | at 1 |\n| --- | ---: |\n| a\\|b | 5\\* |\n\n"
        "text\n\n```text\n--flag *x*\n```\n"
    )


def test_a_fence_inside_code_does_not_end_it() -> None:
    text = render_markdown(Document(title="t", lead=(Code(text="```\nlog\n```"),), sections=()))
    assert "````text\n```\nlog\n```\n````" in text


def test_what_a_server_says_commands_no_terminal() -> None:
    said = Document(title="t", lead=(Paragraph(text="engine \x1b[31m0.1\x1b[0m"),), sections=())
    assert "\x1b" not in render_markdown(said)
