"""Collect, clean and deduplicate Python source text, and cut the held-out workload.

Inputs are folders of Python source (standard libraries, installed packages) and
wheel files. Outputs, under ``--out``:

* ``train.jsonl``    one training document a line (``{"source", "path", "text"}``)
* ``heldout.jsonl``  sanitized held-out standard-library modules (``{"path", "text"}``)
* ``prose.jsonl``    held-out English prose (language-reference topics)
* ``stats.json``     counts by source

The held-out modules, and every file that shares a good part of its lines with
one of them (other versions, backports, vendored copies), stay out of training.
"""

from __future__ import annotations

import argparse
import ast
import collections
import gzip
import hashlib
import io
import json
import random
import re
import tokenize
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from email.parser import Parser
from pathlib import Path

MAX_BYTES = 200_000
MIN_BYTES = 400
SKIP_PARTS = {
    "_vendor",
    "vendor",
    "vendored",
    "externals",
    "pydoc_data",
    "site-packages",
    "encodings",
    "locale",
    "cjkencodings",
    "unicode",
    "tables",
    "extern",
    "__pycache__",
    "bundled",
    "idle_test",
    "lib2to3",
    "ensurepip",
}
CREDIT = re.compile(
    r"[\w.+-]+@[\w-]+\.\w|\bat\b \w+ \bdot\b|copyright|\bauthors?\b|__credits__|written by|contribut|"
    r"thanks to|courtesy|\bcredits?\b|maintain(er|ed by)|\bported by\b|\bmodified by\b|"
    r"\bupdated by\b|\bsubmitted by\b|\bsuggested by\b|\bfound by\b|\breported by\b|"
    r"\bdesigned by\b|\bdeveloped by\b|\bimplement(ed|ation) by\b|\boriginal(ly)? .*\bby\b|"
    r"\bcreated by\b|\brewritten by\b|\bbased on .* by\b|\bpaper\b|\bidea from\b|\(c\) ?(19|20)|"
    r"all rights reserved|licensed to|\(gvr\)|xxx \w+ \d|\binspired by\b|\b(19|20)\d\d ",
    re.IGNORECASE,
)
# Modules with a licence notice of their own are held out, but not redistributed.
OWN_LICENCE = re.compile(r"permission to use|licensed under|spdx-license", re.IGNORECASE)
# Words with a capital letter, in comments and docstrings, that may be a person's name.
CAPITALISED = re.compile(r"\b[A-Z][a-z]{2,}\b")
CAPITALISED_PAIR = re.compile(r"\b[A-Z][a-z]{2,} [A-Z][a-z]{2,}\b")


@dataclass(frozen=True)
class Document:
    """One source file."""

    source: str
    path: str
    text: str


def decode(data: bytes) -> str | None:
    """Returns the text of clean UTF-8 bytes, or None."""
    if not MIN_BYTES <= len(data) <= MAX_BYTES or b"\0" in data:
        return None
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return text.replace("\r\n", "\n").removeprefix("\ufeff")


def looks_like_data(text: str) -> bool:
    """Tells tables, generated code and minified text from hand-written source."""
    lines = text.splitlines()
    letters = sum(char.isalpha() or char in " \n" for char in text[:40_000])
    sample = text[:40_000]
    if letters / len(sample) < 0.68 or (not sample.isascii() and sum(map(ord, sample)) / len(sample) > 110):
        return True
    if max(map(len, lines)) > 1000 or len(text) / len(lines) > 80:
        return True
    return "generated" in text[:600].lower() and "do not edit" in text[:600].lower()


def strip_credits(text: str) -> str:
    """Drops lines that name authors or hold an address (training text only)."""
    return "".join(line for line in text.splitlines(True) if not CREDIT.search(line))


def folder_files(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yields the Python files of a folder, in a stable order."""
    for path in sorted(folder.rglob("*.py")):
        relative = path.relative_to(folder)
        if not SKIP_PARTS & set(relative.parts) and path.stat().st_size <= MAX_BYTES:
            yield relative.as_posix(), path.read_bytes()


def wheel_files(wheel: Path) -> Iterator[tuple[str, bytes]]:
    """Yields the Python files of a wheel, and its long description."""
    with zipfile.ZipFile(wheel) as archive:
        for name in sorted(archive.namelist()):
            wanted = name.endswith((".py", ".dist-info/METADATA"))
            if wanted and not SKIP_PARTS & set(name.split("/")):
                yield name, archive.read(name)


def package_name(wheel: Path) -> str:
    """Returns ``name version`` of a wheel file."""
    return " ".join(wheel.name.split("-")[:2])


def documents(args: argparse.Namespace) -> Iterator[Document]:
    """Yields every candidate document, the most wanted first."""
    sources = [(f"cpython {folder.name[6:]}", folder_files(folder)) for folder in args.stdlib]
    sources += [(package_name(wheel), wheel_files(wheel)) for wheel in sorted(args.wheels.glob("*.whl"))]
    sources += [(f"{folder.name} (installed)", folder_files(folder)) for folder in args.package]
    for source, files in sources:
        for path, data in files:
            text = decode(data)
            if text is None:
                continue
            if path.endswith("METADATA"):
                text = Parser().parsestr(text).get_payload()
                if len(text) > MIN_BYTES:
                    yield Document(source, path, text)
            elif not looks_like_data(text):
                yield Document(source, path, text)


def line_keys(text: str, shortest: int = 14) -> set[int]:
    """Returns hashes of the distinct lines that are long enough to tell files apart."""
    return {hash(line) for raw in text.splitlines() if len(line := raw.strip()) >= shortest}


def comment_lines(text: str) -> set[int]:
    """Returns the 1-based lines that are only comments or lie inside a docstring."""
    chosen: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and token.line.strip().startswith("#"):
            chosen.add(token.start[0])
    for node in ast.walk(ast.parse(text)):
        body = getattr(node, "body", None)
        first = body[0] if isinstance(body, list) and body else None
        value = getattr(first, "value", None) if isinstance(first, ast.Expr) else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            chosen.update(range(value.lineno, (value.end_lineno or value.lineno) + 1))
    return chosen


def suspicious(line: str, common: set[str]) -> bool:
    """Tells whether a comment line may credit or name a person."""
    if CREDIT.search(line):
        return True
    return any(word.lower() not in common for word in CAPITALISED.findall(line))


def clean_comment(line: str, common: set[str]) -> list[str]:
    """Returns a comment or docstring line, or nothing if it may name a person."""
    if not suspicious(line, common):
        return [line.rstrip()]
    if '"""' in line or "'''" in line:
        raise ValueError("a docstring's first or last line has to go")
    return []


def clean_code(line: str, common: set[str]) -> str:
    """Returns a line of code, without its comment if that may name a person."""
    code, mark, comment = line.partition("  #")
    kept = code if mark and suspicious(comment, common) else line
    pairs = " ".join(CAPITALISED_PAIR.findall(kept)).split()
    if CREDIT.search(kept) or any(word.lower() not in common for word in pairs):
        raise ValueError("a line of code may name a person")
    return kept.rstrip()


def sanitize(text: str, common: set[str]) -> str | None:
    """Removes lines that may name people; None if that would break the code.

    Args:
        text: Source of a module.
        common: Lower-case words that are surely no names.
    """
    if not text.isascii():
        return None
    soft = comment_lines(text)
    kept: list[str] = []
    try:
        for number, line in enumerate(text.splitlines(), 1):
            kept += clean_comment(line, common) if number in soft else [clean_code(line, common)]
        cleaned = re.sub(r"\n{4,}", "\n\n\n", "\n".join(kept)).strip() + "\n"
        ast.parse(cleaned)
    except (ValueError, SyntaxError):
        return None
    return cleaned


def common_words(docs: list[Document], least: int) -> set[str]:
    """Returns words that occur in lower case in at least ``least`` documents."""
    counts: collections.Counter[str] = collections.Counter()
    for doc in docs:
        counts.update(set(re.findall(r"\b[a-z]{3,}\b", doc.text)))
    return {word for word, count in counts.items() if count >= least}


def choose_heldout(folder: Path, common: set[str], budget: int, seed: int) -> dict[str, str]:
    """Picks sanitized standard-library modules, about ``budget`` characters in all."""
    candidates = []
    for path, data in folder_files(folder):
        parts = path.split("/")
        text = decode(data)
        if parts[0] in {"test", "idlelib", "turtledemo"} or "tests" in parts or text is None:
            continue
        if 3_000 <= len(text) <= 62_000 and not looks_like_data(text):
            candidates.append((path, text))
    random.Random(seed).shuffle(candidates)
    chosen: dict[str, str] = {}
    for path, text in candidates:
        cleaned = sanitize(text, common)
        if cleaned and len(cleaned) >= 3_000 and len(cleaned) > 0.8 * len(text):
            chosen[path] = cleaned
        if sum(map(len, chosen.values())) >= budget:
            break
    return dict(sorted(chosen.items()))


def write_workload(path: Path, heldout: dict[str, str], stdlib: Path) -> None:
    """Writes the held-out files that only the PSF licence covers as .jsonl.gz."""
    rows = [
        {"path": name, "text": text}
        for name, text in heldout.items()
        if not OWN_LICENCE.search((stdlib / name).read_text())
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    payload = "".join(json.dumps(row) + "\n" for row in rows).encode()
    path.write_bytes(gzip.compress(payload, 9, mtime=0))
    print(f"{path}: {len(rows)} files, {path.stat().st_size} bytes")


def overlaps(doc_keys: set[int], heldout_keys: dict[int, list[int]], sizes: list[int]) -> bool:
    """Tells whether a document shares a good part of its lines with a held-out file."""
    shared: collections.Counter[int] = collections.Counter()
    for key in doc_keys:
        for index in heldout_keys.get(key, ()):
            shared[index] += 1
    return any(
        count >= 8 and (count >= 0.10 * len(doc_keys) or count >= 0.10 * sizes[index])
        for index, count in shared.items()
    )


def split(docs: list[Document], heldout: dict[str, str]) -> tuple[list[Document], dict[str, int]]:
    """Drops duplicates and whatever is too close to a held-out file."""
    frequency: collections.Counter[int] = collections.Counter()
    keys = [line_keys(doc.text) for doc in docs]
    for some in keys:
        frequency.update(some)
    # Lines that many files share (imports, licence text) say nothing about copying.
    rare_heldout = [{k for k in line_keys(t) if frequency[k] <= 12} for t in heldout.values()]
    index: dict[int, list[int]] = collections.defaultdict(list)
    for number, some in enumerate(rare_heldout):
        for key in some:
            index[key].append(number)
    sizes = [len(some) for some in rare_heldout]
    names = set(heldout)
    kept, seen, digests = [], set(), set()
    dropped: collections.Counter[str] = collections.Counter()
    for doc, some in zip(docs, keys, strict=True):
        digest = hashlib.sha256(doc.text.encode()).digest()
        if (doc.source.startswith("cpython") and doc.path in names) or overlaps(some, index, sizes):
            dropped["held-out"] += 1
        elif digest in digests or (some and len(some & seen) > 0.6 * len(some)):
            dropped["duplicate"] += 1
        else:
            digests.add(digest)
            seen |= some
            kept.append(doc)
    return kept, dict(dropped)


def prose_documents(topics: Path) -> list[dict[str, str]]:
    """Reads the language-reference topics as held-out English prose."""
    tree = ast.parse(topics.read_text())
    value = next(node.value for node in tree.body if isinstance(node, ast.Assign))
    table: dict[str, str] = ast.literal_eval(value)
    return [
        {"path": f"topics/{name}", "text": strip_credits(text)}
        for name, text in sorted(table.items())
        if len(text) > 2_000
    ]


def write_jsonl(path: Path, rows: list[dict[str, str]]) -> None:
    """Writes one JSON object a line."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def main() -> None:
    """Runs the preparation."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--stdlib",
        type=Path,
        nargs="+",
        required=True,
        help="folders, newest first; held-out files come from the first",
    )
    parser.add_argument("--wheels", type=Path, required=True, help="folder of downloaded wheels")
    parser.add_argument("--package", type=Path, nargs="*", default=[], help="folders of installed packages")
    parser.add_argument("--topics", type=Path, required=True, help="pydoc_data/topics.py")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--workload", type=Path, help="write the held-out files as this .jsonl.gz, too")
    parser.add_argument("--heldout-chars", type=int, default=1_500_000)
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)

    docs = list(documents(args))
    print(f"{len(docs)} candidate files, {sum(len(d.text) for d in docs) / 1e6:.1f} MB", flush=True)
    heldout = choose_heldout(args.stdlib[0], common_words(docs, 25), args.heldout_chars, args.seed)
    print(f"{len(heldout)} held-out files, {sum(map(len, heldout.values())) / 1e6:.2f} MB", flush=True)
    kept, dropped = split(docs, heldout)
    train = [{"source": d.source, "path": d.path, "text": strip_credits(d.text)} for d in kept]
    by_source: collections.Counter[str] = collections.Counter()
    for row in train:
        by_source[row["source"]] += len(row["text"])
    stats = {
        "files": len(train),
        "chars": sum(by_source.values()),
        "dropped": dropped,
        "heldout": len(heldout),
        "by_source": dict(by_source),
    }
    rows = [{"path": path, "text": text} for path, text in heldout.items()]
    write_jsonl(args.out / "train.jsonl", train)
    write_jsonl(args.out / "heldout.jsonl", rows)
    write_jsonl(args.out / "prose.jsonl", prose_documents(args.topics))
    (args.out / "stats.json").write_text(json.dumps(stats, indent=1) + "\n")
    print(json.dumps(stats, indent=1))
    if args.workload:
        write_workload(args.workload, heldout, args.stdlib[0])


if __name__ == "__main__":
    main()
