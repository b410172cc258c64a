"""`spectune predict`: fits the performance model to a table of measurements and prints what it says."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from spectune.cli.options import Parser, parse_numbers
from spectune.cli.output import Output
from spectune.cli.prediction import Grid, NewPrompts, answer
from spectune.cli.streams import print_out
from spectune.errors import ConfigError
from spectune.perfmodel.input_text import MAX_NUM_STEPS, MAX_REQUESTS
from spectune.report.prediction_report import prediction_document, prediction_json
from spectune.report.terminal import render_terminal

STDIO = "-"


def run_predict(words: Sequence[str]) -> int:
    """Prints the prediction of a table; returns the exit status."""
    found = _parser().read(words)
    steps = _numbers(found.num_steps, "--num-steps", 0, MAX_NUM_STEPS)
    levels = _numbers(found.concurrency, "--concurrency", 1, MAX_REQUESTS)
    if found.running is not None and not found.acceptance:
        raise ConfigError("--running: `--acceptance FILE` must be given with it.")
    inputs = {"TABLE": found.table, "--acceptance": found.acceptance}
    _check_json(found.json or "", {flag: name for flag, name in inputs.items() if name})
    new = None
    if found.acceptance:
        running = _numbers(found.running, "--running", 0, MAX_NUM_STEPS)
        if len(running) > 1:
            raise ConfigError(f"--running: `one num_steps` must hold, got {found.running}.")
        new = NewPrompts(
            text=_read(found.acceptance),
            name=_shown(found.acceptance),
            running=running[0] if running else None,
        )
    grid = Grid(num_steps=steps, concurrency=levels)
    page = answer(_read(found.table), _shown(found.table), grid, new)
    text, data = render_terminal(prediction_document(page)), prediction_json(page)
    if found.json and found.json != STDIO:
        _write(Path(found.json), data)
    print_out(data if found.json == STDIO else text)
    return 0


def _numbers(text: str | None, flag: str, lowest: int, highest: int) -> tuple[int, ...]:
    """Those of an option, none where it is left out."""
    numbers = parse_numbers(text, flag=flag, lowest=lowest) if text else ()
    if numbers and numbers[-1] > highest:
        raise ConfigError(f"{flag}: `each number <= {highest}` must hold, got {numbers[-1]}; leave it out.")
    return numbers


def _check_json(target: str, inputs: Mapping[str, str]) -> None:
    """Tries the file of --json before anything is read; it is none of the inputs, also under another name."""
    taken = {flag: Path(name) for flag, name in inputs.items() if name != STDIO}
    Output(json_file=target, report_file="").check(taken)
    if target in ("", STDIO):
        return
    for flag, name in inputs.items():
        path = Path("/dev/stdin" if name == STDIO else name)
        try:
            is_same = path.is_file() and path.samefile(target)
        except OSError:
            continue
        if is_same:
            raise ConfigError(
                f"--json {target}: `it is another file than that of {flag}` must hold, it would be "
                "overwritten; give another name."
            )


def _shown(name: str) -> str:
    """A file's name as text that can be written; bytes that are none are escaped."""
    return Path(name).name.encode("utf-8", "backslashreplace").decode("utf-8")


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
        text = sys.stdin.read() if name == STDIO else Path(name).read_text(encoding="utf-8-sig")
        text.encode("utf-8")  # stdin may have let other bytes pass
    except OSError as exc:
        raise ConfigError(f"{_shown(name)}: `the file must be readable`, got: {exc.strerror}.") from exc
    except UnicodeError as exc:
        at = exc.start if isinstance(exc, UnicodeDecodeError | UnicodeEncodeError) else 0
        message = f"{_shown(name)}: `a text file in UTF-8` must hold, got other bytes at {at}."
        raise ConfigError(message) from exc
    return text


def _write(path: Path, text: str) -> None:
    """Writes what was rendered in full; what cannot be encoded never empties a file."""
    data = text.encode("utf-8", "backslashreplace")
    try:
        path.write_bytes(data)
    except OSError as exc:
        raise ConfigError(f"--json {path}: `the file must be writable`, got: {exc.strerror}.") from exc
