"""A small real HTTP server of known truth, in the embedded engine's dialect, with faults on request.

    python -m spectune.testing.simulated_server --port 30001 --speculative-algorithm EAGLE \
        --speculative-num-steps 3 --sim-fault die-after:5

It takes the embedded engine's flags and, of its own, `--sim-fault` (see `faults.py`, repeatable),
`--sim-acceptance`, `--sim-time-scale` (2 = half as fast), `--sim-start-s` (seconds until it listens).
"""

import argparse
import asyncio
import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace

from aiohttp import web

from spectune.domain.spec_config import SpecConfig
from spectune.testing.faults import Fault, Faults
from spectune.testing.simulated_engine import SimulatedEngine

METHODS = {"EAGLE": "eagle", "STANDALONE": "draft_model", "NGRAM": "ngram"}
MODEL = "simulated"
MAX_PROMPT_CHARS = 20_000


@dataclass(slots=True)
class _Sequence:
    """A request inside the engine."""

    max_tokens: int
    rng: random.Random
    produced: int = 0
    steps: asyncio.Queue[int] = field(default_factory=asyncio.Queue)
    is_cancelled: bool = False


@dataclass(slots=True)
class _Counters:
    verify_steps: int = 0
    undrafted_steps: int = 0
    drafted: int = 0
    accepted: int = 0
    generated: int = 0
    prompt: int = 0
    per_position: list[int] = field(default_factory=list)


class SimulatedServer:
    """The engine loop and its HTTP front in one process."""

    def __init__(self, engine: SimulatedEngine, config: SpecConfig, faults: Faults, api_key: str) -> None:
        """A server that is not yet running."""
        self.engine, self.config, self.faults, self.api_key = engine, config, faults, api_key
        self.waiting: list[_Sequence] = []
        self.running: list[_Sequence] = []
        self.counters = _Counters(per_position=[0] * config.num_steps)
        self.served = 0
        self._work = asyncio.Event()

    def app(self) -> web.Application:
        """The HTTP routes."""
        app = web.Application()
        app.add_routes(
            [
                web.get("/health", self.health),
                web.get("/server_info", self.server_info),
                web.get("/metrics", self.metrics),
                web.get("/v1/models", self.models),
                web.post("/flush_cache", self.flush),
                web.post("/v1/completions", self.generate),
                web.post("/v1/chat/completions", self.generate),
            ]
        )
        return app

    async def run_engine(self) -> None:
        """Steps for ever; a step's length follows the engine's formula."""
        clock = asyncio.get_running_loop().time
        due_s = clock()
        while True:
            if not self.running and not self.waiting:
                self._work.clear()
                await self._work.wait()
                due_s = clock()
            due_s += self._step_s()
            await asyncio.sleep(max(due_s - clock(), 0))
            if not self.faults.has("hang-after", self.served - 1):
                self._finish_step()

    def _step_s(self) -> float:
        """Admits what fits; the length of the coming step."""
        self.running = [s for s in self.running if not s.is_cancelled]
        self.waiting = [s for s in self.waiting if not s.is_cancelled]
        free = self.engine.capacity(self.config) - len(self.running)
        admitted, self.waiting = self.waiting[:free], self.waiting[free:]
        self.running += admitted
        return self.engine.prefill_s * len(admitted) + self.engine.step_s(self.config, len(self.running))

    def _finish_step(self) -> None:
        for sequence in self.running:
            is_first = sequence.produced == 0
            gained = 1 if is_first else 1 + self._accept(sequence)
            gained = min(gained, sequence.max_tokens - sequence.produced)
            sequence.produced += gained
            self.counters.generated += gained
            sequence.steps.put_nowait(gained)
        self.running = [s for s in self.running if s.produced < s.max_tokens]

    def _accept(self, sequence: _Sequence) -> int:
        """Draws how many draft tokens are accepted, and counts."""
        k, counters = self.config.num_steps, self.counters
        accepted = 0
        while accepted < k and sequence.rng.random() < self.engine.acceptance:
            accepted += 1
        if self.faults.has("counters-still"):
            return accepted
        if k == 0:
            counters.undrafted_steps += 1
            return 0
        counters.verify_steps += 1
        counters.drafted += k
        counters.accepted += accepted
        for position in range(accepted):
            counters.per_position[position] += 1
        return accepted

    async def health(self, _request: web.Request) -> web.Response:
        """Says 200 even while hanging, as real servers do."""
        return web.Response()

    async def models(self, request: web.Request) -> web.Response:
        """The one model."""
        self._authorise(request)
        return web.json_response({"object": "list", "data": [{"id": MODEL, "object": "model"}]})

    async def server_info(self, request: web.Request) -> web.Response:
        """The effective settings."""
        self._authorise(request)
        if self.faults.has("garbage-info"):
            return web.Response(text="<html>not JSON</html>")
        config, is_on = self.config, not self.config.is_off
        algorithm = next((name for name, method in METHODS.items() if method == config.method), None)
        return web.json_response(
            {
                "speculative_algorithm": algorithm,
                "speculative_num_steps": config.num_steps if is_on else None,
                "speculative_eagle_topk": config.topk if is_on else None,
                "speculative_num_draft_tokens": config.num_draft_tokens if is_on else None,
                "max_running_requests": self.engine.capacity(config),
                "max_total_num_tokens": self.engine.capacity(config) * 1024,
                "version": "0.0.1",
                "model_path": MODEL,
            }
        )

    async def metrics(self, request: web.Request) -> web.Response:
        """Prometheus text."""
        self._authorise(request)
        if self.faults.has("garbage-metrics"):
            return web.Response(text="spectune:verify_steps_total{ what\n")
        counters = self.counters
        values: dict[str, float] = {
            "num_requests_running": len(self.running),
            "num_requests_waiting": len(self.waiting),
            "kv_cache_usage_ratio": len(self.running) / self.engine.capacity(self.config),
            "verify_steps_total": counters.verify_steps,
            "undrafted_steps_total": counters.undrafted_steps,
            "drafted_tokens_total": counters.drafted,
            "accepted_tokens_total": counters.accepted,
            "generated_tokens_total": counters.generated,
            "prompt_tokens_total": counters.prompt,
        }
        lines = [f"spectune:{name} {value}" for name, value in values.items()]
        lines += [
            f'spectune:accepted_tokens_per_position_total{{position="{position}"}} {count}'
            for position, count in enumerate(counters.per_position)
        ]
        return web.Response(text="\n".join(lines) + "\n")

    async def flush(self, request: web.Request) -> web.Response:
        """Refuses while busy, as the real ones do."""
        self._authorise(request)
        if self.running or self.waiting:
            return web.Response(status=400, text="busy")
        return web.Response(text="flushed")

    async def generate(self, request: web.Request) -> web.StreamResponse:
        """A completion or chat completion, streamed or not."""
        self._authorise(request)
        body = await _json_body(request)
        self.served += 1
        if self.faults.has("never-ready"):
            return _refusal(503, "still loading")
        if self.faults.has("errors-after", self.served - 1):
            return _refusal(500, "internal error (simulated)")
        if self.faults.has("hang-at-start"):
            await asyncio.Event().wait()
        options = _stream_options(body)
        if options.get("continuous_usage_stats") and self.faults.has("refuse-continuous-usage"):
            return _refusal(400, "stream_options: unknown field `continuous_usage_stats`")
        sequence, prompt_tokens = self._admit(body)
        try:
            if body.get("stream"):
                return await self._stream(request, body, sequence, prompt_tokens)
            async for _ in _gains(sequence):
                pass
            return web.json_response(
                _chunk(request.path, _text(0, sequence.produced), "length")
                | {"usage": _usage(prompt_tokens, sequence.produced)}
            )
        finally:
            sequence.is_cancelled = True

    def _admit(self, body: dict[str, object]) -> tuple[_Sequence, int]:
        prompt = json.dumps(body.get("messages", body.get("prompt")))
        max_tokens = body.get("max_tokens", 16)
        if not isinstance(max_tokens, int) or max_tokens < 1 or len(prompt) > MAX_PROMPT_CHARS:
            raise _http_error(web.HTTPBadRequest, "max_tokens or prompt out of range")
        sequence = _Sequence(max_tokens=max_tokens, rng=random.Random(prompt))  # noqa: S311
        self.waiting.append(sequence)
        self._work.set()
        prompt_tokens = len(prompt) // 4
        self.counters.prompt += prompt_tokens
        return sequence, prompt_tokens

    async def _stream(
        self, request: web.Request, body: dict[str, object], sequence: _Sequence, prompt_tokens: int
    ) -> web.StreamResponse:
        options = _stream_options(body)
        is_continuous = options.get("continuous_usage_stats") and not self.faults.has("no-continuous-usage")
        number = self.served
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        if self.faults.has("garbage-after", number - 1):
            await response.write(b"data: {not json\n\ndata: \xff\xfe\n\n")
            return response
        seen = 0
        async for gained in _gains(sequence):
            if self.faults.has("die-after", number - 1):
                os._exit(7)
            chunk = _chunk(request.path, _text(seen, gained), None)
            seen += gained
            if is_continuous:
                chunk["usage"] = _usage(prompt_tokens, seen)
            await response.write(_event(chunk))
        await response.write(_event(_chunk(request.path, "", "length")))
        if options.get("include_usage"):
            last = _chunk(request.path, "", None) | {"choices": [], "usage": _usage(prompt_tokens, seen)}
            await response.write(_event(last))
        await response.write(b"data: [DONE]\n\n")
        return response

    def _authorise(self, request: web.Request) -> None:
        if self.api_key and request.headers.get("Authorization") != f"Bearer {self.api_key}":
            raise _http_error(web.HTTPUnauthorized, "wrong or missing API key")


async def _gains(sequence: _Sequence) -> AsyncIterator[int]:
    """Tokens gained by each step, until the sequence is complete."""
    seen = 0
    while seen < sequence.max_tokens:
        gained = await sequence.steps.get()
        seen += gained
        yield gained


def _stream_options(body: dict[str, object]) -> dict[str, object]:
    options = body.get("stream_options")
    return options if isinstance(options, dict) else {}


async def _json_body(request: web.Request) -> dict[str, object]:
    try:
        body = await request.json()
    except json.JSONDecodeError:
        body = None
    if not isinstance(body, dict) or not ("prompt" in body or "messages" in body):
        raise _http_error(web.HTTPBadRequest, "`prompt` or `messages` must be given")
    return body


def _chunk(path: str, text: str, finish_reason: str | None) -> dict[str, object]:
    if path.endswith("chat/completions"):
        choice: dict[str, object] = {"index": 0, "delta": {"content": text}, "message": {"content": text}}
    else:
        choice = {"index": 0, "text": text}
    return {"id": "sim", "model": MODEL, "choices": [choice | {"finish_reason": finish_reason}]}


def _text(first: int, count: int) -> str:
    return "".join(f" t{number}" for number in range(first, first + count))


def _usage(prompt: int, output: int) -> dict[str, int]:
    return {"prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output}


def _event(chunk: dict[str, object]) -> bytes:
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


def _error_text(message: str) -> str:
    return json.dumps({"error": {"message": message, "type": "simulated"}})


def _refusal(status: int, message: str) -> web.Response:
    return web.Response(status=status, text=_error_text(message), content_type="application/json")


def _http_error(kind: type[web.HTTPException], message: str) -> web.HTTPException:
    return kind(text=_error_text(message), content_type="application/json")


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
    parser.add_argument("--sim-fault", action="append", default=[], type=Fault.parse)
    parser.add_argument("--sim-acceptance", type=float, default=0.75)
    parser.add_argument("--sim-time-scale", type=float, default=1.0)
    parser.add_argument("--sim-start-s", type=float, default=0.0)
    return parser.parse_args(argv)


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
    if not server.faults.has("ignore-sigterm"):
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
