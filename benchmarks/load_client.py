"""CPU cost of the load client per stream chunk, against the simulated server in a process of its own.

Prints one JSON object. `during_us` is what the client takes from the core it shares with the server's HTTP
front while the load runs; `after_us` is the reading of raw bytes after the level has ended.
"""

import argparse
import json
import platform
import sys
import tempfile
import time
from pathlib import Path

from spectune.clock import SystemClock
from spectune.loadgen.driver import run_load
from spectune.loadgen.stream_client import LoadTarget
from spectune.testing.simulation import running_simulation, simulated_pool
from spectune.workloads.load_plan import pilot_requests


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--concurrency", type=int, default=32)
    parser.add_argument("--waves", type=int, default=3)
    parser.add_argument("--time-scale", type=float, default=2.2, help="2.2 gives about 4,000 chunks/s at 32")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(measure(Path(folder), arguments)))
    return 0


def measure(folder: Path, arguments: argparse.Namespace) -> dict[str, object]:
    marks: list[float] = []  # CPU seconds of this process at the end of each request
    pool = simulated_pool(num_prompts=arguments.concurrency * arguments.waves, max_tokens=128)
    with running_simulation(folder, "--sim-time-scale", str(arguments.time_scale)) as server:
        before_s = time.process_time()
        run = run_load(
            pilot_requests(pool.prompts),
            concurrency=arguments.concurrency,
            target=LoadTarget(endpoint=server.endpoint, model=""),
            clock=SystemClock(),
            request_done=lambda: marks.append(time.process_time()),
        )
        after_s = time.process_time()
    num_chunks = sum(len(record.chunk_times_s) for record in run.records)
    return {
        "concurrency": arguments.concurrency,
        "requests": len(run.records),
        "errors": sum(bool(record.error) for record in run.records),
        "chunks": num_chunks,
        "chunks_per_s": round(num_chunks / run.wall_s),
        "during_us": round(1e6 * (marks[-1] - before_s) / num_chunks, 1),
        "during_share_of_core": round((marks[-1] - before_s) / run.wall_s, 3),
        "after_us": round(1e6 * (after_s - marks[-1]) / num_chunks, 1),
        "python": platform.python_version(),
    }


if __name__ == "__main__":
    sys.exit(main())
