"""The `spectune` command: finds the subcommand, and turns whatever ends it into an exit status.

0 done, 1 the work failed, 2 bad input, 128 + signal when interrupted. Results go to stdout, progress,
warnings and errors to stderr.
"""

import sys
from collections.abc import Sequence

from spectune import __version__
from spectune.cli.streams import discard_stdout, prepare_streams, print_out
from spectune.errors import ConfigError, SpectuneError

_USAGE = """\
usage: spectune COMMAND [options]

Finds, proves and applies the best speculative-decoding settings for an LLM server and its traffic.

commands:
  tune    find the best setting; with no arguments, of the embedded engine
  show    list the stored studies, or print one again
  predict fit the performance model to a table of measurements
  serve   the embedded engine as an OpenAI-compatible server

options:
  --help, -h   this text; after a command, the command's options
  --version    the version

exit status: 0 done, 1 the work failed, 2 bad input
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit status."""
    words = sys.argv[1:] if argv is None else list(argv)
    prepare_streams()
    try:
        _check_text(words)
        return _dispatch(words)
    except SpectuneError as error:
        sys.stderr.write(f"spectune: {error}\n")
        return error.exit_status
    except KeyboardInterrupt:
        sys.stderr.write("spectune: interrupted\n")
        return 130
    except BrokenPipeError:
        discard_stdout()
        return 141


def _check_text(words: list[str]) -> None:
    """Raises ConfigError where a word is not UTF-8: stores and reports could not hold it."""
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError as exc:
            raise ConfigError(f"spectune: `arguments are UTF-8 text` must hold, got {word!r}.") from exc


def _dispatch(words: list[str]) -> int:
    """Each command loads only what it needs."""
    match words:
        case ["tune", *rest]:
            from spectune.cli.tune import run_tune  # noqa: PLC0415

            return run_tune(rest)
        case ["show", *rest]:
            from spectune.cli.show import run_show  # noqa: PLC0415

            return run_show(rest)
        case ["predict", *rest]:
            from spectune.cli.predict import run_predict  # noqa: PLC0415

            return run_predict(rest)
        case ["serve", *rest]:
            from spectune.cli.serve import serve  # noqa: PLC0415

            return serve(rest)
        case ["--version"]:
            print_out(f"spectune {__version__}\n")
            return 0
        case [] | ["--help" | "-h", *_]:
            print_out(_USAGE)
            return 0 if words else 2
        case [word, *_]:
            raise ConfigError(
                f"spectune: `tune, show, predict or serve` must be given, got {word!r}; "
                "see `spectune --help`."
            )
        case _:
            raise AssertionError(words)
