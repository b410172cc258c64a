"""`python -m spectune` is the `spectune` command."""

import sys

from spectune.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
