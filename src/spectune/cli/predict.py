"""`spectune predict`: fits the performance model to a table of measurements and prints what it says."""

import sys
from collections.abc import Sequence
from pathlib import Path

from spectune.cli.options import Parser, parse_numbers
from spectune.cli.prediction import Grid, NewPrompts, answer
from spectune.cli.streams import print_out
from spectune.errors import ConfigError
from spectune.report.prediction_report import prediction_document, prediction_json
from spectune.report.terminal import render_terminal

STDIO = "-"


def run_predict(words: Sequence[str]) -> int:
    """Prints the prediction of a table; returns the exit status."""
    found = _parser().read(words)
    steps = parse_numbers(found.num_steps, flag="--num-steps", lowest=0) if found.num_steps else ()
    levels = parse_numbers(found.concurrency, flag="--concurrency", lowest=1) if found.concurrency else ()
    if found.running is not None and not found.acceptance:
        raise ConfigError("--running: `--acceptance FILE` must be given with it.")
    new = None
    if found.acceptance:
        running = parse_numbers(found.running, flag="--running", lowest=0) if found.running else ()
        if len(running) > 1:
            raise ConfigError(f"--running: `one num_steps` must hold, got {found.running}.")
        new = NewPrompts(
            text=_read(found.acceptance),
            name=Path(found.acceptance).name,
            running=running[0] if running else None,
        )
    grid = Grid(num_steps=steps, concurrency=levels)
    page = answer(_read(found.table), Path(found.table).name, grid, new)
    text = render_terminal(prediction_document(page))
    if found.json == STDIO:
        text = prediction_json(page)
    elif found.json:
        _write(Path(found.json), prediction_json(page))
    print_out(text)
    return 0


def _parser() -> Parser:
    parser = Parser(
        "spectune predict",
        "Fits the performance model to a table of measurements (CSV or JSON) and prints the surface, the "
        "best\n"
        "setting per level, where it changes and why, and what to measure next.",
        "columns: num_steps, concurrency, output_tps or request_tps; optional acceptance_length,\n"
        "max_running_requests, topk, num_draft_tokens, workload, metric (docs/predict.md)",
    )
    steps = "settings to predict, such as 0..6 (default: the measured range)"
    levels = "levels to predict, such as 1,4,16 (default: those measured)"
    parser.add_argument("table", metavar="TABLE", help="CSV or JSON file; - for stdin")
    parser.add_argument("--num-steps", metavar="LIST", help=steps)
    parser.add_argument("--concurrency", metavar="LIST", help=levels)
    acceptance = "acceptance of new prompts: re-ranks all settings for them without a launch"
    parser.add_argument("--acceptance", metavar="FILE", help=acceptance)
    running = "with --acceptance: num_steps that runs now (default: the table's best of each level)"
    parser.add_argument("--running", metavar="K", help=running)
    parser.add_argument("--json", metavar="FILE", help="answers as JSON; - for stdout instead of the table")
    return parser


def _read(name: str) -> str:
    try:
        return sys.stdin.read() if name == STDIO else Path(name).read_text(encoding="utf-8-sig")
    except OSError as exc:
        raise ConfigError(f"{name}: `the file must be readable`, got: {exc.strerror}.") from exc
    except UnicodeDecodeError as exc:
        message = f"{name}: `a text file in UTF-8` must hold, got other bytes at {exc.start}."
        raise ConfigError(message) from exc


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as exc:
        raise ConfigError(f"--json {path}: `the file must be writable`, got: {exc.strerror}.") from exc
