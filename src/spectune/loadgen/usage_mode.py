"""Finds out, once per launch, whether a server streams and how finely it tells its token counts."""

import asyncio
import json

from spectune.clock import Clock
from spectune.domain.endpoint import Endpoint
from spectune.domain.workload import PlannedRequest
from spectune.errors import LoadError, ProtocolError
from spectune.loadgen.stream_client import LoadTarget, RawStream, StreamClient, streamed_body
from spectune.loadgen.stream_content import read_stream

_REFUSALS = (400, 422)


def find_load_target(
    endpoint: Endpoint, model: str, *, path: str, body: str, clock: Clock, timeout_s: float
) -> LoadTarget:
    """The server as the load client will use it: with continuous usage unless it refuses that field.

    Args:
        endpoint: the server.
        model: the served model's name.
        path: where to generate.
        body: a tiny generation's JSON.
        clock: source of time.
        timeout_s: for each of at most two generations.

    Raises:
        ProtocolError: its stream cannot be read, or carries no token count.
        LoadError: no stream in time, or it refuses streaming.
    """
    request = PlannedRequest(index=0, path=path, body=body, max_tokens=int(json.loads(body)["max_tokens"]))
    for has_continuous_usage in (True, False):
        target = LoadTarget(endpoint=endpoint, model=model, has_continuous_usage=has_continuous_usage)
        stream = asyncio.run(_stream_once(request, target, clock, timeout_s))
        if stream.status in _REFUSALS and has_continuous_usage:
            continue
        _check(stream)
        return target
    raise AssertionError("the second pass returns or raises")


async def _stream_once(
    request: PlannedRequest, target: LoadTarget, clock: Clock, timeout_s: float
) -> RawStream:
    stream = RawStream(request=request)
    async with StreamClient(target, clock) as client:
        try:
            async with asyncio.timeout(timeout_s):
                await client.send(stream, streamed_body(request, target))
        except TimeoutError:
            stream.error = f"`a streamed generation within {timeout_s:g} s` must end; it does not"
    return stream


def _check(stream: RawStream) -> None:
    """Raises what is wrong with a trial stream."""
    if stream.error and not stream.is_unreadable:
        raise LoadError(f"POST {stream.request.path} (streamed): {stream.error}")
    content = read_stream(stream.pieces)
    error = stream.error or content.error
    if error:
        raise ProtocolError(f"POST {stream.request.path} (streamed): {error}")
