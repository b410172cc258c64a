"""The HTTP front of the embedded engine."""

from collections.abc import Sequence


def main(argv: Sequence[str]) -> int:
    """Serves until stopped; returns the exit status."""
    raise SystemExit(f"not there yet: {list(argv)}")
