"""The command line of `spectune serve`. Loads nothing heavy until the thread count is set."""

import argparse
import os
from collections.abc import Callable, Sequence
from typing import NoReturn

from spectune.cpu_engine.options import MAX_STEPS, MAX_TOPK, EngineOptions, Method
from spectune.cpu_engine.schedule import Schedule, read_schedule

METHODS: dict[str, Method] = {
    "EAGLE": "eagle",
    "EAGLE3": "eagle",
    "STANDALONE": "draft_model",
    "NGRAM": "ngram",
}
DEFAULT_STEPS = 3
MIB = 2**20


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line; exit status 2."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"spectune serve: {message}. See `spectune serve --help`.\n")


def main(argv: Sequence[str], version: str) -> int:
    """Serves until stopped; returns the exit status."""
    parser = _parser()
    words = parser.parse_args(argv)
    options = _options(parser, words)
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(options.num_threads)
    from spectune.cpu_engine.api_server import ServerOptions, run_server  # noqa: PLC0415  (after the threads)

    return run_server(
        options, ServerOptions(host=words.host, port=words.port, api_key=words.api_key, version=version)
    )


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="spectune serve",
        description="Serves the bundled small model on the CPU with OpenAI's endpoints.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--host", default="127.0.0.1", help="address to listen on (default 127.0.0.1)")
    add(
        "--port",
        type=_whole("port", 0, 65535),
        default=30000,
        help="port (default 30000; 0 takes a free one)",
    )
    add("--api-key", default=os.environ.get("SPECTUNE_API_KEY"), help="key that requests must carry")
    add("--threads", type=_whole("threads", 1, 64), default=1, help="compute threads (default 1)")
    add(
        "--max-running-requests",
        type=_whole("max-running-requests", 1, 4096),
        help="upper limit of sequences",
    )
    add(
        "--context-length",
        type=_whole("context-length", 64, 2048),
        default=1024,
        help="tokens (default 1024)",
    )
    add(
        "--kv-cache-mib",
        type=_whole("kv-cache-mib", 1, 65536),
        default=192,
        help="cache budget (default 192)",
    )
    add("--speculative-algorithm", type=str.upper, choices=sorted(METHODS), help="off when not given")
    add("--speculative-num-steps", type=_whole("speculative-num-steps", 0, MAX_STEPS), help="draft steps")
    add(
        "--speculative-eagle-topk",
        type=_whole("speculative-eagle-topk", 1, MAX_TOPK),
        help="branches per step",
    )
    add("--speculative-schedule", help="steps by decoding sequences, such as 1-4:5,5-15:2,16-:0")
    add(
        "--testing-corrupt-every",
        type=_whole("testing-corrupt-every", 0, 10**9),
        default=0,
        help=argparse.SUPPRESS,
    )
    add("--speculative-num-draft-tokens", type=_whole("speculative-num-draft-tokens", 1, 128),
        help="tokens verified per step, root included")  # fmt: skip
    return parser


def _whole(name: str, low: int, high: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = low - 1
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"`{low} <= {name} <= {high}` must hold, got {text}")
        return value

    return read


def _options(parser: argparse.ArgumentParser, words: argparse.Namespace) -> EngineOptions:
    schedule = _schedule(parser, words)
    steps, topk, tokens = _speculation(parser, words)
    method = METHODS[words.speculative_algorithm] if words.speculative_algorithm and steps else "off"
    return EngineOptions(
        method=method,
        num_steps=steps,
        topk=topk,
        num_draft_tokens=tokens,
        schedule=schedule,
        max_running_requests=words.max_running_requests,
        context_length=words.context_length,
        cache_bytes=words.kv_cache_mib * MIB,
        num_threads=words.threads,
        corrupt_every=words.testing_corrupt_every,
    )


def _schedule(parser: argparse.ArgumentParser, words: argparse.Namespace) -> Schedule | None:
    """The schedule; sets num_steps to its largest step."""
    if words.speculative_schedule is None:
        return None
    try:
        schedule = read_schedule(words.speculative_schedule)
    except ValueError as error:
        parser.error(f"--speculative-schedule: {error}")
    if words.speculative_num_steps not in (None, schedule.max_steps):
        parser.error(
            f"`--speculative-num-steps is the schedule's largest step` must hold, got "
            f"{words.speculative_num_steps}; leave it out"
        )
    if (words.speculative_eagle_topk or 1) > 1 or not 0 < schedule.max_steps <= MAX_STEPS:
        parser.error(f"--speculative-schedule: `topk 1 and 1 to {MAX_STEPS} steps` must hold")
    words.speculative_num_steps = schedule.max_steps
    return schedule


def _speculation(parser: argparse.ArgumentParser, words: argparse.Namespace) -> tuple[int, int, int]:
    """(num_steps, topk, num_draft_tokens) in SGLang's meaning; contradictions end the program."""
    steps, topk = words.speculative_num_steps, words.speculative_eagle_topk
    tokens = words.speculative_num_draft_tokens
    if words.speculative_algorithm is None:
        if steps or (topk or 1) > 1 or (tokens or 1) > 1:
            parser.error("`--speculative-algorithm` must be given with the other --speculative flags")
        return 0, 1, 1
    topk = topk or 1
    if words.speculative_algorithm == "NGRAM" and topk > 1:
        parser.error("`--speculative-eagle-topk 1` must hold for NGRAM: its drafts are chains")
    if topk == 1:
        steps = _chain_steps(parser, steps, tokens)
        return steps, 1, steps + 1
    steps = DEFAULT_STEPS if steps is None else steps
    most = 1 + topk + max(steps - 1, 0) * topk * topk
    tokens = min(1 + steps * topk, most) if tokens is None else tokens
    if not steps < tokens <= most or steps == 0:
        parser.error(
            f"`num_steps < num_draft_tokens <= {most}` must hold for num_steps {steps}, "
            f"topk {topk}, got {tokens}"
        )
    return steps, topk, tokens


def _chain_steps(parser: argparse.ArgumentParser, steps: int | None, tokens: int | None) -> int:
    if steps is None:
        return DEFAULT_STEPS if tokens is None else tokens - 1
    if tokens is not None and tokens != steps + 1:
        parser.error(
            f"`num_draft_tokens = num_steps + 1` must hold when topk is 1, got {tokens} and {steps}; "
            "leave one of them out"
        )
    return steps
