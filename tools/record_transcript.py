"""Records what a fresh, idle server answers and logs for tests/transcripts, cut to what dialects read.

    python tools/record_transcript.py ENGINE --port N --log FILE --out FOLDER [--model NAME]

It asks for the settings, notes the counters, sends a few greedy completions one after the other, notes the
counters again and copies the telling lines of the log. What is recorded is never edited afterwards; the
folder's manifest is written by hand.
"""

import argparse
import json
import re
import sys
import urllib.request
from dataclasses import dataclass
from pathlib import Path

NUM_REQUESTS, MAX_TOKENS = 3, 32
PROMPTS = (
    "def add_1(a, b):\n    return a + b\n\ndef add_2(a, b):\n    return a + b\n\ndef add_3(a, b):\n",
    'def read_metrics(path):\n    """Read',
    "for name in sorted(values):\n    if name not in",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What is kept of one engine.

    Attributes:
        answers: file name to path of the endpoint.
        metrics: metric lines that are kept.
        log: log lines that are kept.
    """

    answers: dict[str, str]
    metrics: re.Pattern[str]
    log: re.Pattern[str]


ENGINES = {
    "vllm": Recorded(
        answers={"version.json": "/version", "models.json": "/v1/models"},
        metrics=re.compile(
            r"vllm:(?:spec_decode_\w+|generation_tokens_total|inter_token_latency_seconds_count"
            r"|time_to_first_token_seconds_count|num_requests_running|cache_config_info|num_preemptions_total)\b"
        ),
        log=re.compile(
            r"non-default args|with config:|KV cache size|Maximum concurrency|Graph capturing|init engine"
            r"|Starting vLLM|SpecDecoding metrics|[Dd]ynamic [Ss]pec|per_batch_size"
        ),
    ),
    "llamacpp": Recorded(
        answers={"props.json": "/props", "slots.json": "/slots", "models.json": "/v1/models"},
        metrics=re.compile(r"llamacpp:\w+"),
        log=re.compile(
            r"initializing, n_slots|model loaded|listening on|draft acceptance|peculative|EAGLE3|failed to"
        ),
    ),
}
_LONGEST = 1200  # characters of a log line


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("engine", choices=ENGINES)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--model", default="", help="name the server knows it by")
    parser.add_argument("--shorten", action="append", default=[], metavar="PATH=SHORT")
    asked = parser.parse_args()
    shorten = [tuple(pair.split("=", 1)) for pair in asked.shorten]
    record = ENGINES[asked.engine]
    texts = dict(_answers(asked.port, record))
    texts["metrics_before.txt"] = _metrics(asked.port, record)
    for prompt in PROMPTS[:NUM_REQUESTS]:
        texts["completion.json"] = _complete(asked.port, asked.model, prompt)
    texts["metrics_after.txt"] = _metrics(asked.port, record)
    log = asked.log.read_text(encoding="utf-8", errors="replace").splitlines()
    texts["start.log"] = "".join(f"{line[:_LONGEST]}\n" for line in log if record.log.search(line))
    asked.out.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        for path, short in shorten:
            text = text.replace(path, short)  # noqa: PLW2901  (one after the other)
        (asked.out / name).write_text(text, encoding="utf-8")
    return 0


def _answers(port: int, record: Recorded) -> list[tuple[str, str]]:
    return [(name, _fetch(port, path)) for name, path in record.answers.items()]


def _metrics(port: int, record: Recorded) -> str:
    lines = _fetch(port, "/metrics").splitlines()
    return "".join(f"{line}\n" for line in lines if record.metrics.match(line) and "_created" not in line)


def _complete(port: int, model: str, prompt: str) -> str:
    body = {"model": model, "prompt": prompt, "max_tokens": MAX_TOKENS, "temperature": 0}
    return _fetch(port, "/v1/completions", json.dumps(body).encode())


def _fetch(port: int, path: str, body: bytes | None = None) -> str:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}", body, {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=120) as answer:
        found: bytes = answer.read()
    return found.decode()


if __name__ == "__main__":
    sys.exit(main())
