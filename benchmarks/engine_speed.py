"""Speed of the embedded engine without HTTP: tok/s by setting and concurrency, and the roof of one stream.

The roof is the time of the bare matmuls of one decoding step, of the same shapes, in the same run: what a
step without attention, norms, sampling and bookkeeping would take. Ratios within one run are what counts;
machines are noisy.

    python benchmarks/engine_speed.py [--seconds 4] [--num-steps 0,1,2,3,4,6,8] [--method eagle] [--json FILE]
"""

import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import argparse
import gzip
import json
import platform
import statistics
import sys
import time
from importlib import resources
from pathlib import Path
from typing import Any, get_args

import numpy as np

from spectune.cpu_engine.assembly import build_engine
from spectune.cpu_engine.engine import Engine
from spectune.cpu_engine.graph_builder import GraphBuilder
from spectune.cpu_engine.messages import Submit
from spectune.cpu_engine.options import EngineOptions, Method
from spectune.cpu_engine.tokenizer import Tokenizer
from spectune.cpu_engine.weights import MODELS, read_target

LEVELS = (1, 4, 16, 32)
Row = dict[str, Any]


def held_out_prompts(count: int, length: int = 100) -> list[tuple[int, ...]]:
    """Prompts of `length` tokens cut from files the model was not trained on."""
    data = resources.files("spectune.workloads") / "data" / "python_code.jsonl.gz"
    lines = gzip.decompress(data.read_bytes()).decode().splitlines()
    tokenizer = Tokenizer(MODELS / "target" / "tokenizer.json")
    rng = np.random.default_rng(0)
    texts = [json.loads(line)["text"] for line in lines]
    prompts = []
    for n in range(count):
        text = texts[n % len(texts)]
        start = text.find("\n", int(rng.integers(0, max(len(text) - 2000, 1)))) + 1
        prompts.append(tuple(tokenizer.encode(text[start : start + 1200])[:length]))
    return prompts


def decode_speed(
    engine: Engine, prompts: list[tuple[int, ...]], concurrency: int, seconds: float
) -> dict[str, float | None]:
    """Tokens per second in a closed loop of `concurrency` requests; the first second is not counted."""
    engine.flush()
    ids = iter(range(10**9))
    live: set[int] = set()
    tokens, started, before = 0, 0.0, (0, 0)
    begin = time.perf_counter()
    while True:
        while len(live) < concurrency:
            n = next(ids)
            prompt = prompts[n % len(prompts)]
            engine.submit(Submit(request_id=n, prompt=prompt, max_tokens=64 + 8 * (n % 12)))
            live.add(n)
        output = engine.step()
        now = time.perf_counter()
        live -= {i for i, end in zip(output.request_ids, output.finish, strict=True) if end}
        if not started:
            if now - begin > 1.0:
                started, before = now, (engine.stats.accepted_tokens, engine.stats.verify_steps)
            continue
        tokens += sum(map(len, output.tokens))
        if now - started > seconds:
            break
    for n in live:
        engine.cancel(n)
    steps = engine.stats.verify_steps - before[1]
    accepted = engine.stats.accepted_tokens - before[0]
    return {
        "output_tps": tokens / (now - started),
        "acceptance_length": 1 + accepted / steps if steps else None,
    }


def step_times(engine: Engine, prompt: tuple[int, ...], count: int = 200) -> list[float]:
    """Seconds of single decode steps of one stream."""
    engine.flush()
    engine.submit(Submit(request_id=-1, prompt=prompt, max_tokens=count + 20, stops_at_eos=False))
    for _ in range(10):
        engine.step()
    times = []
    for _ in range(count):
        begin = time.perf_counter()
        engine.step()
        times.append(time.perf_counter() - begin)
    engine.cancel(-1)
    return times


def roof_times(count: int = 200) -> list[float]:
    """Seconds of the bare matmuls of one decoding step."""
    _, weights = read_target()
    g = GraphBuilder()
    feeds = {}
    for name, matrix in weights.items():
        if matrix.ndim < 2:
            continue
        x = f"x{matrix.shape[1]}"
        if x not in feeds:
            g.input(x, np.float32, (1, matrix.shape[1]))
            feeds[x] = np.ones((1, matrix.shape[1]), np.float32)
        y = g.op("MatMul", [x, g.constant(name, matrix.T)])
        g.output(g.op("ReduceMax", [y], keepdims=0), np.float32, ())
    session = g.session(1)
    for _ in range(20):
        session.run(None, feeds)
    times = []
    for _ in range(count):
        begin = time.perf_counter()
        session.run(None, feeds)
        times.append(time.perf_counter() - begin)
    return times


def main() -> int:
    """Measures and prints a table; returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--num-steps", default="0,1,2,3,4,6,8")
    parser.add_argument("--method", default="eagle", choices=get_args(Method))
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    settings = [int(n) for n in args.num_steps.split(",")]
    prompts = held_out_prompts(400)
    engines = {}
    for steps in settings:
        method: Method = args.method if steps else "off"
        options = EngineOptions(method=method, num_steps=steps, num_draft_tokens=steps + 1)
        engines[steps] = build_engine(options)[0]
    rows = []
    for _ in range(args.repeats):
        for concurrency in LEVELS:
            for steps, engine in engines.items():
                got = decode_speed(engine, prompts, concurrency, args.seconds)
                rows.append({"num_steps": steps, "concurrency": concurrency, **got})
                print(json.dumps(rows[-1]), file=sys.stderr)
    plain = statistics.median(step_times(engines.get(0) or build_engine(EngineOptions())[0], prompts[0]))
    roof = statistics.median(roof_times())
    print_table(rows, settings)
    print(f"one stream, off: {1e3 * plain:.2f} ms a step, bare matmuls {1e3 * roof:.2f} ms", end="")
    print(f": {roof / plain:.0%} of the roof")
    if args.json:
        facts = {"machine": platform.machine(), "rows": rows, "step_s": plain, "roof_s": roof}
        args.json.write_text(json.dumps(facts, indent=1))
    return 0


def print_table(rows: list[Row], settings: list[int]) -> None:
    """tok/s by setting and concurrency, the best of each level marked."""
    print("num_steps  " + "".join(f"{f'c={c}':>10}" for c in LEVELS) + "   AL at 1")
    groups: dict[tuple[int, int], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["num_steps"], row["concurrency"]), []).append(row)
    cells = {key: statistics.median(row["output_tps"] for row in group) for key, group in groups.items()}
    for steps in settings:
        best = [steps == max(settings, key=lambda s: cells[s, c]) for c in LEVELS]
        line = "".join(
            f"{cells[steps, c]:>9.0f}{'*' if b else ' '}" for c, b in zip(LEVELS, best, strict=True)
        )
        length = groups[steps, 1][0]["acceptance_length"]
        print(f"{steps or 'off':>9}  {line}   {f'{length:.2f}' if length else '–'}")


if __name__ == "__main__":
    sys.exit(main())
