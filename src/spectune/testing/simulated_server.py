"""A small real HTTP server of known truth, in the embedded engine's dialect, with faults on request.

    python -m spectune.testing.simulated_server --port 30001 --speculative-algorithm EAGLE \
        --speculative-num-steps 3 --sim-fault die-after:5

It takes the embedded engine's flags and, of its own, `--sim-fault` (see `faults.py`, repeatable),
`--sim-acceptance`, `--sim-time-scale` (2 = half as fast), `--sim-start-s` (seconds until it listens).
"""

import argparse
import asyncio
import contextlib
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace

from aiohttp import web

from spectune.domain.spec_config import SpecConfig
from spectune.errors import ConfigError
from spectune.testing.faults import Fault, Faults
from spectune.testing.simulated_engine import SimulatedEngine
from spectune.testing.simulated_front import METHODS, SimulatedServer


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    """The flags; exits with status 2 on a bad one, as the embedded engine does."""
    parser = argparse.ArgumentParser(prog="simulated_server", allow_abbrev=False)
    parser.add_argument("--speculative-algorithm", choices=sorted(METHODS))
    parser.add_argument("--speculative-num-steps", type=int)
    parser.add_argument("--speculative-eagle-topk", type=int)
    parser.add_argument("--speculative-num-draft-tokens", type=int)
    parser.add_argument("--max-running-requests", type=int, default=48)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=30000)
    parser.add_argument("--api-key", default="")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--sim-fault", action="append", default=[], type=_fault)
    parser.add_argument("--sim-acceptance", type=float, default=0.75)
    parser.add_argument("--sim-time-scale", type=float, default=1.0)
    parser.add_argument("--sim-start-s", type=float, default=0.0)
    return parser.parse_args(argv)


def _fault(text: str) -> Fault:
    try:
        return Fault.parse(text)
    except ConfigError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def requested_config(arguments: argparse.Namespace) -> SpecConfig:
    """The setting the flags ask for; topk 1 unless given."""
    if arguments.speculative_algorithm is None:
        return SpecConfig.chain("off", 0)
    num_steps = arguments.speculative_num_steps or 3
    topk = arguments.speculative_eagle_topk or 1
    num_draft_tokens = num_steps + 1 if topk == 1 else arguments.speculative_num_draft_tokens
    method = METHODS[arguments.speculative_algorithm]
    return SpecConfig(method=method, num_steps=num_steps, topk=topk, num_draft_tokens=num_draft_tokens)


def simulated_engine(arguments: argparse.Namespace) -> SimulatedEngine:
    """The truth these flags describe."""
    engine, scale = SimulatedEngine(), arguments.sim_time_scale
    return replace(
        engine,
        fixed_s=engine.fixed_s * scale,
        row_s=engine.row_s * scale,
        draft_s=engine.draft_s * scale,
        prefill_s=engine.prefill_s * scale,
        acceptance=arguments.sim_acceptance,
        max_running_requests=arguments.max_running_requests,
    )


def _fail_at_start(faults: Faults) -> int | None:
    """The exit status of a server that does not come up, or None."""
    if faults.has("bad-argument"):
        print("simulated_server: error: argument --speculative-num-steps: not supported", file=sys.stderr)
        return 2
    if faults.has("out-of-memory"):
        print("MemoryError: out of memory: cannot allocate the KV cache", file=sys.stderr)
        return 1
    if faults.has("die-at-start"):
        print("Traceback (most recent call last):\nRuntimeError: cannot load the draft", file=sys.stderr)
        return 3
    return None


async def _serve_garbage(listener: socket.socket) -> None:
    """Answers every connection with bytes that are not HTTP."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1024)
        writer.write(b"\x00\x01SSH-2.0-not-http\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, sock=listener)
    await server.serve_forever()


async def _serve(server: SimulatedServer, listener: socket.socket) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    if server.faults.has("ignore-sigterm"):
        loop.add_signal_handler(signal.SIGTERM, lambda: print("SIGTERM came and is ignored", flush=True))
    else:
        loop.add_signal_handler(signal.SIGTERM, stopping.set)
    runner = web.AppRunner(server.app(), access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.SockSite(runner, listener).start()
    engine = asyncio.create_task(server.run_engine())
    print("simulated server is up", flush=True)
    await stopping.wait()
    engine.cancel()
    await runner.cleanup()


def main(argv: Sequence[str] | None = None) -> int:
    """Serves until SIGTERM; returns the exit status."""
    arguments = parse_arguments(sys.argv[1:] if argv is None else argv)
    config = requested_config(arguments)
    faults = Faults.at(tuple(arguments.sim_fault), config.num_steps)
    status = _fail_at_start(faults)
    if status is not None:
        return status
    if faults.has("wrong-settings"):
        config = SpecConfig.chain(config.method, max(config.num_steps - 1, 0))
    if faults.has("ignore-sigterm"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if faults.has("leave-child"):
        subprocess.Popen(["sh", "-c", "trap '' TERM; sleep 600 & wait"])
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((arguments.host, arguments.port))
        except OSError as error:
            print(f"cannot listen on {arguments.host}:{arguments.port}: {error.strerror}", file=sys.stderr)
            return 1
        listener.listen(128)
        if faults.has("garbage-http"):
            asyncio.run(_serve_garbage(listener))
        server = SimulatedServer(simulated_engine(arguments), config, faults, arguments.api_key)
        asyncio.run(_start_later(server, listener, arguments.sim_start_s))
    return 0


async def _start_later(server: SimulatedServer, listener: socket.socket, start_s: float) -> None:
    await asyncio.sleep(start_s)
    await _serve(server, listener)


if __name__ == "__main__":
    sys.exit(main())
