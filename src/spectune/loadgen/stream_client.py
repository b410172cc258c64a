"""One streamed request over aiohttp, kept as raw bytes and arrival times; reading them comes later.

Nothing is parsed while the load runs: the client shares a core with the server's HTTP front.
"""

import asyncio
import json
from dataclasses import dataclass, field
from typing import Self

import aiohttp

from spectune.clock import Clock
from spectune.domain.endpoint import Endpoint
from spectune.domain.workload import PlannedRequest

_MAX_ERROR_BYTES = 65_536
_CONNECT_S = 10.0
_SPARE_BYTES, _BYTES_PER_TOKEN = 2**20, 8 * 2**10  # far above any real answer, log probabilities included


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadTarget:
    """A server as the load client sees it.

    Attributes:
        endpoint: where it is.
        model: the served model's name, put into every request; "" leaves it out.
        has_continuous_usage: whether it takes `stream_options.continuous_usage_stats`.
    """

    endpoint: Endpoint
    model: str
    has_continuous_usage: bool = True


@dataclass(slots=True)
class RawStream:
    """One request as it happens. Times are the clock's monotonic seconds.

    Attributes:
        request: what was planned.
        due_at_s: when the slot was free and the request's start had come.
        sent_at_s: when it was sent; negative before.
        pieces: (arrival, bytes) of the body.
        ended_at_s: when it ended or failed; negative before.
        status: HTTP status; 0 before there is one.
        error: "" or what went wrong.
        is_unreadable: whether what came back is not HTTP.
        is_refused: whether no connection could be made.
        is_broken: whether the connection broke.
    """

    request: PlannedRequest
    due_at_s: float = -1.0
    sent_at_s: float = -1.0
    pieces: list[tuple[float, bytes]] = field(default_factory=list)
    ended_at_s: float = -1.0
    status: int = 0
    error: str = ""
    is_unreadable: bool = False
    is_refused: bool = False
    is_broken: bool = False

    @property
    def is_lost(self) -> bool:
        """Whether there was no connection, or it broke."""
        return self.is_refused or self.is_broken

    @property
    def looks_complete(self) -> bool:
        """Whether it ended well as far as can be told without reading it."""
        return not self.error and bool(self.pieces) and b"[DONE]" in self.pieces[-1][1][-32:]


class StreamClient:
    """Sends streamed requests to one server over kept-alive connections."""

    def __init__(self, target: LoadTarget, clock: Clock) -> None:
        """A client; to be used as an async context manager."""
        self._target, self._clock = target, clock
        self.last_progress_s = clock.monotonic_s()

    async def __aenter__(self) -> Self:
        """Opens the session."""
        self._session = aiohttp.ClientSession(
            self._target.endpoint.base_url,
            # One connection a request: llama.cpp says Keep-Alive and closes after a stream all the same.
            connector=aiohttp.TCPConnector(limit=0, force_close=True),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S),
            headers={"Content-Type": "application/json", "Accept-Encoding": "identity"}
            | dict(self._target.endpoint.headers),
            trust_env=False,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        """Closes the connections."""
        await self._session.close()

    async def send(self, stream: RawStream, body: bytes) -> None:
        """Sends one request and fills `stream`; failures are recorded, not raised."""
        try:
            await self._send(stream, body)
        except aiohttp.ClientConnectorError as error:
            stream.error, stream.is_refused = f"no connection: {error}", True
        except (aiohttp.ClientResponseError, aiohttp.http.HttpProcessingError) as error:
            stream.error, stream.is_unreadable = f"the answer is not HTTP: {ascii(str(error))[:120]}", True
        except (aiohttp.ClientError, OSError) as error:
            stream.error = f"connection lost: {type(error).__name__} {error!s:.120}".rstrip()
            stream.is_broken = True
        except asyncio.CancelledError:
            stream.error = "given up: the level was aborted"
            raise
        finally:
            stream.ended_at_s = self._clock.monotonic_s()

    async def _send(self, stream: RawStream, body: bytes) -> None:
        now_s = self._clock.monotonic_s
        stream.sent_at_s = now_s()
        path = stream.request.path
        async with self._session.post(path, data=body, allow_redirects=False) as response:
            stream.status = response.status
            if response.status != 200:
                said = (await response.content.read(_MAX_ERROR_BYTES)).decode(errors="replace")
                stream.error = f"HTTP {response.status}: {' '.join(said.split())[:200]}".rstrip()
                return
            add, read = stream.pieces.append, response.content.readany
            left = _SPARE_BYTES + _BYTES_PER_TOKEN * stream.request.max_tokens
            while piece := await read():
                at_s = now_s()
                add((at_s, piece))
                if b"data" in piece:  # comments keep a connection open, they are no progress
                    self.last_progress_s = at_s
                left -= len(piece)
                if left < 0:
                    stream.error = f"endless stream: {stream.request.max_tokens} tokens were asked for"
                    stream.is_unreadable = True
                    return


def streamed_body(request: PlannedRequest, target: LoadTarget) -> bytes:
    """The bytes to send: the planned body with streaming, usage and the model's name."""
    options = {"include_usage": True}
    if target.has_continuous_usage:
        options["continuous_usage_stats"] = True
    body = json.loads(request.body) | {"stream": True, "stream_options": options}
    if target.model:
        body["model"] = target.model
    return json.dumps(body, ensure_ascii=False).encode()
