"""`spectune serve`: the embedded engine as an OpenAI-compatible server."""

from collections.abc import Sequence


def serve(argv: Sequence[str]) -> int:
    """Runs the embedded engine until it is stopped; returns the exit status."""
    from spectune.cpu_engine.api_server import main  # noqa: PLC0415  (heavy: only when serving)

    return main(argv)
