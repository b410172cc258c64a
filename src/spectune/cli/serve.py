"""`spectune serve`: the embedded engine as an OpenAI-compatible server."""

from collections.abc import Sequence

from spectune import __version__
from spectune.cpu_engine.command import main


def serve(argv: Sequence[str]) -> int:
    """Runs the embedded engine until it is stopped; returns the exit status."""
    return main(argv, __version__)
