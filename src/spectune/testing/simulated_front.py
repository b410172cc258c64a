"""The simulated engine behind HTTP: an engine loop whose steps last as its formula says, and its routes."""

import asyncio
import json
import os
import random
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from aiohttp import web

from spectune.domain.spec_config import SpecConfig
from spectune.testing.faults import Faults
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
        options, tool = _stream_options(body), _first_tool(body)
        is_continuous = options.get("continuous_usage_stats") and not self.faults.has("no-continuous-usage")
        number = self.served
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        if self.faults.has("garbage-after", number - 1):
            await response.write(b"data: {not json\n\ndata: \xff\xfe\n\n")
            return response
        seen = 0
        async for gained in _gains(sequence):
            _end_if_told(self.faults, number - 1)
            chunk = _chunk(request.path, _text(seen, gained), None)
            if tool:
                chunk = _call_chunk(tool, seen, gained, is_last=seen + gained == sequence.max_tokens)
            seen += gained
            if is_continuous:
                chunk["usage"] = _usage(prompt_tokens, seen)
            await response.write(_event(chunk))
        await response.write(_event(_chunk(request.path, "", "tool_calls" if tool else "length")))
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


def _end_if_told(faults: Faults, served: int) -> None:
    """Ends the process in the midst of a generation where it is told to."""
    if faults.has("out-of-memory-after", served):
        print("MemoryError: out of memory: cannot allocate a batch", file=sys.stderr, flush=True)
        os._exit(1)
    if faults.has("die-after", served):
        os._exit(7)


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


def _first_tool(body: dict[str, object]) -> str:
    """The function that is called, "" where none is offered."""
    tools = body.get("tools")
    return str(tools[0]["function"]["name"]) if isinstance(tools, list) and tools else ""


def _call_chunk(tool: str, first: int, count: int, *, is_last: bool) -> dict[str, object]:
    """A piece of a call: its argument "text" holds what would have been the answer."""
    text = ('{"text": "' if first == 0 else "") + _text(first, count) + ('"}' if is_last else "")
    function = {"name": tool, "arguments": text} if first == 0 else {"arguments": text}
    delta = {"tool_calls": [{"index": 0, "function": function}]}
    choice = {"index": 0, "delta": delta, "finish_reason": None}
    return {"id": "sim", "model": MODEL, "choices": [choice]}


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
