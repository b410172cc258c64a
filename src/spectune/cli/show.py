"""`spectune show`: lists the studies of a store, or prints one again from its raw records."""

import time
from collections.abc import Sequence

from spectune.cli.options import Parser
from spectune.cli.output import Output
from spectune.cli.stored_study import study_named
from spectune.cli.streams import print_out
from spectune.cli.wiring import answers_of, open_store
from spectune.errors import ConfigError
from spectune.report.document import Document, Paragraph, Table
from spectune.report.terminal import render_terminal
from spectune.storage.sqlite_store import SqliteStore
from spectune.storage.store import StudySummary


def run_show(words: Sequence[str]) -> int:
    """Prints a study or the list of them; returns the exit status."""
    found = _parser().read(words)
    store = open_store(found.store or "")
    output = Output(json_file=found.json or "", report_file=found.report or "", store_file=found.store or "")
    if found.study is None:
        if found.json or found.report:
            raise ConfigError(
                "spectune show: `--json and --report belong to one STUDY` must hold; name it, or `last`."
            )
        print_out(render_terminal(_listing(store)))
        return 0
    output.check({"--store": store.path})
    study_id = study_named(store, found.study, "spectune show")
    output.write(answers_of(store.history(study_id)))
    return 0


def _parser() -> Parser:
    parser = Parser("spectune show", "Lists the stored studies, or prints one again from its raw records.")
    parser.add_argument("study", metavar="STUDY", nargs="?", help="a study's name, or `last`; none: list all")
    parser.add_argument("--json", metavar="FILE", help="answers as JSON; - for stdout instead of the table")
    parser.add_argument("--report", metavar="FILE.md", help="the page as Markdown")
    parser.add_argument("--store", metavar="FILE", help="study store (default: the user's data folder)")
    return parser


def _listing(store: SqliteStore) -> Document:
    studies = store.studies()
    title = f"spectune studies in {store.path}"
    if not studies:
        text = "None yet: `spectune tune` makes the first."
        return Document(title=title, lead=(Paragraph(text=text),), sections=())
    head = ("study", "begun", "engine", "workload", "trials", "state")
    return Document(title=title, lead=(Table(head=head, rows=tuple(map(_row, studies))),), sections=())


def _row(summary: StudySummary) -> tuple[str, ...]:
    study = summary.study
    begun = time.strftime("%Y-%m-%d %H:%M", time.localtime(study.created_unix_s))
    state = "finished" if summary.finished else "running" if summary.is_open else "interrupted"
    return (study.id, begun, study.engine, study.workload.name, str(summary.num_trials), state)
