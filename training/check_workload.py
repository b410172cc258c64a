"""Check the bundled workload text: no credits, addresses, likely names or odd bytes.

Prints every finding and exits 1 if there is one.
"""

from __future__ import annotations

import argparse
import ast
import gzip
import json
import re
import sys
from pathlib import Path

ADDRESS = re.compile(r"[\w.+-]+@[\w-]+\.\w")
CREDIT = re.compile(
    r"copyright|__author__|\bauthors?:|written by|contributed|thanks to|courtesy of|"
    r"maintained by|all rights reserved|permission to use|licensed under",
    re.IGNORECASE,
)
PAIR = re.compile(r"\b([A-Z][a-z]{2,}) (?:[A-Z]\. )?([A-Z][a-z]{2,})\b")


def findings(path: str, text: str, words: set[str]) -> list[str]:
    """Returns what is wrong with one file."""
    found = []
    if not text.isascii() or re.search(r"[^\n\t\f\x20-\x7e]", text):
        found.append("odd bytes")
    for line in text.splitlines():
        pairs = [pair for pair in PAIR.findall(line) if all(w.lower() not in words for w in pair)]
        if ADDRESS.search(line) or CREDIT.search(line) or pairs:
            found.append(line.strip())
    try:
        ast.parse(text)
    except SyntaxError as error:
        found.append(f"does not parse: {error}")
    return [f"{path}: {what}" for what in found]


def main() -> int:
    """Checks one workload file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workload", type=Path)
    args = parser.parse_args()
    lines = gzip.decompress(args.workload.read_bytes()).decode().splitlines()
    rows: list[dict[str, str]] = [json.loads(line) for line in lines]
    words = set(re.findall(r"\b[a-z]{3,}\b", " ".join(row["text"] for row in rows)))
    found = [item for row in rows for item in findings(row["path"], row["text"], words)]
    print("\n".join(found) or f"{len(rows)} files, {sum(len(r['text']) for r in rows)} characters: clean")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
