"""The HTTP front: OpenAI's endpoints, SGLang's `/server_info` and `/flush_cache`, Prometheus metrics."""

import asyncio
import hmac
import os
import socket
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from aiohttp import ClientConnectionResetError, web

from spectune.cpu_engine.front import EngineFront, EngineGone, Piece
from spectune.cpu_engine.messages import Ready, Submit
from spectune.cpu_engine.metrics_page import metrics_page
from spectune.cpu_engine.options import EngineOptions
from spectune.cpu_engine.requests import BadRequest, Generation, read_generation
from spectune.cpu_engine.responses import DONE, AnswerWriter, Usage, error_body
from spectune.cpu_engine.stop_text import StopFinder
from spectune.cpu_engine.tokenizer import StreamDecoder, Tokenizer
from spectune.cpu_engine.weights import MODELS

MODEL_NAME = "spectune-python-9m"
MAX_BODY_BYTES = 4 * 2**20
STOP_WAIT_S = 1.0
OPEN_PATHS = ("/health", "/metrics")
ALGORITHMS = {"eagle": "EAGLE", "draft_model": "STANDALONE", "ngram": "NGRAM", "off": None}
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """Where and for whom to listen."""

    host: str
    port: int
    api_key: str | None
    version: str


def run_server(options: EngineOptions, server: ServerOptions) -> int:
    """Serves until SIGINT or SIGTERM; returns the exit status, 1 when the engine or the port fails."""
    try:
        listener = _listen(server)
    except OSError as error:
        reason = error.strerror or str(error)
        print(
            f"spectune serve: cannot listen on {server.host}:{server.port}: {reason.lower()}", file=sys.stderr
        )
        return 1
    return asyncio.run(_serve(options, server, listener))


def _listen(server: ServerOptions) -> socket.socket:
    family = socket.AF_INET6 if ":" in server.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((server.host, server.port))
    except OSError:
        listener.close()
        raise
    return listener


async def _serve(options: EngineOptions, server: ServerOptions, listener: socket.socket) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (2, 15):  # SIGINT, SIGTERM
        loop.add_signal_handler(number, stop.set)
    front = EngineFront(options)
    try:
        ready = await front.wait_ready()
        runner = web.AppRunner(
            Api(front, ready, options, server).application(),
            handler_cancellation=True,
            access_log=None,
            shutdown_timeout=STOP_WAIT_S,
        )
        await runner.setup()
        await web.SockSite(runner, listener, backlog=1024).start()
        print(f"spectune serve: ready on {server.host}:{listener.getsockname()[1]}", flush=True)
        front.gone.add_done_callback(lambda _: stop.set())
        await stop.wait()
        await runner.cleanup()
    except EngineGone as error:
        print(f"spectune serve: {error}", file=sys.stderr)
        return 1
    finally:
        front.stop()
        listener.close()
    if front.gone.done():
        print(f"spectune serve: {front.gone.result()}", file=sys.stderr)
        return 1
    return 0


class Api:
    """The endpoints."""

    def __init__(
        self, front: EngineFront, ready: Ready, options: EngineOptions, server: ServerOptions
    ) -> None:
        self._front = front
        self._ready = ready
        self._options = options
        self._server = server
        self._tokenizer = Tokenizer(MODELS / "target" / "tokenizer.json")
        self._started = int(time.time())

    def application(self) -> web.Application:
        """The routes, behind the API key where one is set."""
        app = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[self._authorize])
        app.add_routes(
            [
                web.post("/v1/completions", self._completions),
                web.post("/v1/chat/completions", self._chat),
                web.get("/v1/models", self._models),
                web.get("/health", self._health),
                web.get("/server_info", self._server_info),
                web.get("/get_server_info", self._server_info),
                web.get("/metrics", self._metrics),
                web.post("/flush_cache", self._flush_cache),
                web.get("/flush_cache", self._flush_cache),
            ]
        )
        return app

    @web.middleware
    async def _authorize(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        key = self._server.api_key
        if key is not None and request.path not in OPEN_PATHS:
            given = request.headers.get("Authorization", "")
            # aiohttp reads bytes that are not UTF-8 as surrogates
            if not hmac.compare_digest(given.encode("utf-8", "surrogateescape"), f"Bearer {key}".encode()):
                return _refusal(401, "the API key is missing or wrong.", "authentication_error")
        try:
            return await handler(request)
        except ClientConnectionResetError:  # the client has left; nobody reads what we return
            return web.Response(status=499)
        except BadRequest as error:
            return _refusal(400, str(error), "invalid_request_error", error.param)
        except EngineGone as error:
            return _refusal(500, str(error), "server_error")
        except web.HTTPClientError as error:  # no such path or method, too large a body
            refusal = _refusal(error.status, f"{error.text or error.reason}", "invalid_request_error")
            refusal.headers.update({"Allow": error.headers["Allow"]} if "Allow" in error.headers else {})
            return refusal

    async def _completions(self, request: web.Request) -> web.StreamResponse:
        return await self._generate(request, is_chat=False)

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        return await self._generate(request, is_chat=True)

    async def _generate(self, request: web.Request, *, is_chat: bool) -> web.StreamResponse:
        generation = read_generation(
            await request.read(), is_chat=is_chat, vocab_size=self._tokenizer.vocab_size
        )
        submit = self._submit(generation)
        prefix = "chatcmpl" if is_chat else "cmpl"
        writer = AnswerWriter(
            answer_id=f"{prefix}-{submit.request_id}",
            created=int(time.time()),
            model=MODEL_NAME,
            is_chat=is_chat,
        )
        answer = Answer(self._front, submit, generation, self._tokenizer.decoder(), writer)
        if generation.stream:
            return await answer.stream(request)
        return web.Response(body=await answer.whole(), content_type="application/json")

    def _submit(self, generation: Generation) -> Submit:
        context = self._ready.context_length
        prompt = generation.ids or self._tokens(generation.text or "", context)
        limit = generation.max_tokens if generation.max_tokens is not None else context - len(prompt)
        if len(prompt) + max(limit, 1) > context:
            raise BadRequest(
                f"`prompt tokens + max_tokens <= {context}` must hold, got {len(prompt)} + {max(limit, 1)}; "
                "shorten the prompt or lower max_tokens.",
                "max_tokens" if len(prompt) < context else "prompt",
            )
        seed = generation.seed if generation.seed is not None else int.from_bytes(os.urandom(7), "little")
        return Submit(
            request_id=self._front.next_id(),
            prompt=prompt,
            max_tokens=limit,
            temperature=generation.temperature,
            top_p=generation.top_p,
            top_k=generation.top_k,
            seed=seed % 2**64,
            stops_at_eos=not generation.ignore_eos,
        )

    def _tokens(self, text: str, context: int) -> tuple[int, ...]:
        """The text's tokens. Too long a text is refused unread: megabytes would hold up every stream."""
        fewest = len(text.encode()) // self._tokenizer.longest_token
        if fewest > context:
            raise BadRequest(
                f"`prompt tokens <= {context}` must hold, got at least {fewest}; shorten the prompt.",
                "prompt",
            )
        return tuple(self._tokenizer.encode(text))

    async def _models(self, _: web.Request) -> web.Response:
        model = {"id": MODEL_NAME, "object": "model", "created": self._started, "owned_by": "spectune",
                 "max_model_len": self._ready.context_length}  # fmt: skip
        return web.json_response({"object": "list", "data": [model]})

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response(status=503 if self._front.gone.done() else 200)

    async def _server_info(self, _: web.Request) -> web.Response:
        options = self._options
        is_on = options.method != "off"
        return web.json_response(
            {
                "model_path": MODEL_NAME,
                "served_model_name": MODEL_NAME,
                "version": self._server.version,
                "speculative_algorithm": ALGORITHMS[options.method],
                "speculative_num_steps": options.num_steps if is_on else None,
                "speculative_eagle_topk": options.topk if is_on else None,
                "speculative_num_draft_tokens": options.num_draft_tokens if is_on else None,
                "speculative_schedule": str(options.schedule) if options.schedule else None,
                "max_running_requests": self._ready.max_running_requests,
                "max_total_num_tokens": self._ready.max_total_num_tokens,
                "context_length": self._ready.context_length,
                "threads": options.num_threads,
            }
        )

    async def _metrics(self, _: web.Request) -> web.Response:
        page = metrics_page(self._front.stats, self._ready.max_total_num_tokens)
        return web.Response(text=page, content_type="text/plain", charset="utf-8")

    async def _flush_cache(self, _: web.Request) -> web.Response:
        if await self._front.flush():
            return web.Response(text="Cache flushed.\n")
        return web.Response(status=400, text="Not flushed: requests are running or waiting.\n")


class Answer:
    """One request's way from tokens to bytes."""

    def __init__(
        self,
        front: EngineFront,
        submit: Submit,
        generation: Generation,
        decoder: StreamDecoder,
        writer: AnswerWriter,
    ) -> None:
        self._front = front
        self._submit = submit
        self._generation = generation
        self._decoder = decoder
        self._writer = writer
        self._stops = StopFinder(generation.stops)
        self._completion = 0
        self._cached = 0

    @property
    def usage(self) -> Usage:
        """Tokens so far."""
        return Usage(prompt=len(self._submit.prompt), completion=self._completion, cached=self._cached)

    async def whole(self) -> bytes:
        """The answer as one JSON body."""
        texts: list[str] = []
        finish = ""
        pieces = self._front.generate(self._submit)
        async for piece in pieces:
            text, finish = self._read(piece)
            texts.append(text)
            if finish:
                break
        await pieces.aclose()
        return self._writer.whole("".join(texts), finish, self.usage)

    async def stream(self, request: web.Request) -> web.StreamResponse:
        """The answer as server-sent events."""
        response = web.StreamResponse(
            headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"}
        )
        await response.prepare(request)
        continuous = self._generation.continuous_usage
        opening = self._writer.opening()
        pieces = self._front.generate(self._submit)
        try:
            async for piece in pieces:
                text, finish = self._read(piece)
                if not text and not finish and not continuous:
                    continue  # bytes of an unfinished character, or a possible stop text
                event = self._writer.event(text, finish, self.usage if continuous else None)
                await response.write(opening + event)
                opening = b""
                if finish:
                    break
        except EngineGone as error:
            await response.write(b"data: " + error_body(str(error), "server_error") + b"\n\n")
            return response
        finally:
            await pieces.aclose()
        tail = self._writer.usage_event(self.usage) if self._generation.include_usage else b""
        await response.write(tail + DONE)
        return response

    def _read(self, piece: Piece) -> tuple[str, str]:
        """The text a piece adds and the finish reason, stop texts applied."""
        self._cached = piece.cached
        if self._generation.stops:
            return self._read_to_stop(piece)
        self._completion += len(piece.tokens)
        return self._decoder.feed(piece.tokens, final=bool(piece.finish)), piece.finish

    def _read_to_stop(self, piece: Piece) -> tuple[str, str]:
        """Token by token: what speculation emitted past a stop text is no output and is not counted."""
        texts: list[str] = []
        for left, token in zip(reversed(range(len(piece.tokens))), piece.tokens, strict=True):
            self._completion += 1
            is_last = bool(piece.finish) and not left
            texts.append(self._stops.feed(self._decoder.feed([token], final=is_last), final=is_last))
            if self._stops.found:
                return "".join(texts), "stop"
        return "".join(texts), piece.finish


def _refusal(status: int, message: str, kind: str, param: str | None = None) -> web.Response:
    return web.Response(status=status, body=error_body(message, kind, param), content_type="application/json")
