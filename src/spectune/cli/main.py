"""The `spectune` command."""

import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit status."""
    words = sys.argv[1:] if argv is None else list(argv)
    if words[:1] == ["serve"]:
        from spectune.cli.serve import serve  # noqa: PLC0415  (commands load what they need)

        return serve(words[1:])
    return 2
