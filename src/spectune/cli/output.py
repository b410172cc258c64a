"""Where results go: stdout and files. Files are tried before a study starts: nothing is lost at its end."""

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from spectune.analysis.answers import StudyAnswers
from spectune.cli.streams import print_out
from spectune.errors import ConfigError
from spectune.report.markdown import render_markdown
from spectune.report.study_document import study_document
from spectune.report.study_json import render_json
from spectune.report.terminal import render_terminal

STDOUT = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """What the user wants to see.

    Attributes:
        json_file: "-" for stdout instead of the table; "" for nowhere.
        report_file: "-" for stdout instead of the table; "" for nowhere.
        store_file: the store as the user named it, for commands that are told; "" for the default one.
    """

    json_file: str
    report_file: str
    store_file: str = ""

    def check(self, taken: Mapping[str, Path]) -> None:
        """Tries every file without changing it.

        Args:
            taken: files that must not be overwritten, by the flag that names them.

        Raises:
            ConfigError: a file cannot be written, or is another one too.
        """
        if self.json_file == self.report_file == STDOUT:
            raise ConfigError("--json and --report: `one of them goes to stdout` must hold, both do.")
        others = dict(taken)
        for flag, name in (("--json", self.json_file), ("--report", self.report_file)):
            if name and name != STDOUT:
                _check_apart(flag, Path(name), others)
                _check_writable(flag, Path(name))
                others[flag] = Path(name)

    def write(self, answers: StudyAnswers) -> None:
        """Writes the files, and the table to stdout unless something else goes there."""
        document = study_document(answers, store_flag=store_flag(self.store_file))
        parts = ((self.json_file, render_json(answers)), (self.report_file, render_markdown(document)))
        for name, text in parts:
            if name and name != STDOUT:
                _write(Path(name), text, f"{answers.study.id}{store_flag(self.store_file)}")
        to_stdout = [text for name, text in parts if name == STDOUT]
        print_out("".join(to_stdout) if to_stdout else render_terminal(document))


def store_flag(store_file: str) -> str:
    """What a command needs after a study's name to find it, with a space before; "" for the default store.

    >>> store_flag("my studies.db")
    " --store 'my studies.db'"
    """
    return f" --store {shlex.quote(store_file)}" if store_file else ""


def _check_apart(flag: str, path: Path, others: Mapping[str, Path]) -> None:
    for other, file in others.items():
        if os.path.realpath(file) == os.path.realpath(path):
            raise ConfigError(
                f"{flag} {path}: `it is another file than that of {other}` must hold, it would be "
                "overwritten; give another name."
            )


def _check_writable(flag: str, path: Path) -> None:
    try:
        is_new = not path.exists()
        with path.open("a", encoding="utf-8"):
            pass
        if is_new:
            path.unlink()
    except OSError as exc:
        raise ConfigError(
            f"{flag} {path}: `the file must be writable`, got: {exc.strerror}; nothing was started."
        ) from exc


def _write(path: Path, text: str, study_words: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as exc:
        raise ConfigError(
            f"{path}: `the file must be writable`, got: {exc.strerror}; the study is kept: "
            f"`spectune show {study_words}` writes it again."
        ) from exc
