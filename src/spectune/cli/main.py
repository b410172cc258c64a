"""The `spectune` command: finds the subcommand, and turns whatever ends it into an exit status.

0 done, 1 the work failed, 2 bad input, 128 + signal when interrupted. Results go to stdout, progress,
warnings and errors to stderr.
"""

import sys
from collections.abc import Callable, Sequence
from importlib import import_module

from spectune import __version__
from spectune.cli.streams import discard_stdout, prepare_streams, print_out
from spectune.errors import ConfigError, SpectuneError

_USAGE = """\
usage: spectune COMMAND [options]

Finds, proves and applies the best speculative-decoding settings for an LLM server and its traffic.

commands:
  tune    find the best setting; with no arguments, of the embedded engine
  show    list the stored studies, or print one again
  apply   put a study's winner in place on a systemd service, or take it back
  restore give back every service that an interrupted spectune left changed
  predict fit the performance model to a table of measurements
  serve   the embedded engine as an OpenAI-compatible server

options:
  --help, -h   this text; after a command, the command's options
  --version    the version

exit status: 0 done, 1 the work failed, 2 bad input
"""

_COMMANDS = {
    "tune": ("spectune.cli.tune", "run_tune"),
    "show": ("spectune.cli.show", "run_show"),
    "apply": ("spectune.cli.apply", "run_apply"),
    "restore": ("spectune.cli.restore", "run_restore"),
    "predict": ("spectune.cli.predict", "run_predict"),
    "serve": ("spectune.cli.serve", "serve"),
}


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
            raise ConfigError(f"spectune: `arguments are UTF-8 text` must hold, got {word!r:.80}.") from exc


def _dispatch(words: list[str]) -> int:
    """Each command loads only what it needs."""
    match words:
        case [name, *rest] if name in _COMMANDS:
            module, function = _COMMANDS[name]
            run: Callable[[Sequence[str]], int] = getattr(import_module(module), function)
            return run(rest)
        case ["--version"]:
            print_out(f"spectune {__version__}\n")
            return 0
        case [] | ["--help" | "-h", *_]:
            print_out(_USAGE)
            return 0 if words else 2
        case [word, *_]:
            names = ", ".join(_COMMANDS)
            raise ConfigError(
                f"spectune: `one of {names}` must be given, got {word!r:.80}; see `spectune --help`."
            )
        case _:
            raise AssertionError(words)
