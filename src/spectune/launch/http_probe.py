"""A small blocking HTTP client for probes: readiness, settings, counters, flush. Bounded in time and size."""

import http.client
import time
from dataclasses import dataclass

from spectune.domain.command import HttpRequest
from spectune.domain.endpoint import Endpoint
from spectune.errors import ProtocolError, ServerUnreachable

MAX_BODY_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswer:
    """An answer of any status.

    Attributes:
        status: HTTP status.
        body: text; bytes that are not UTF-8 are replaced.
    """

    status: int
    body: str


def fetch(endpoint: Endpoint, request: HttpRequest, *, timeout_s: float) -> HttpAnswer:
    """Makes one request.

    Args:
        endpoint: the server.
        request: what to ask.
        timeout_s: for the whole exchange.

    Raises:
        ServerUnreachable: no connection, or no complete answer in time.
        ProtocolError: what came back is not HTTP, or is longer than 8 MiB.
    """
    what = f"{request.method} {endpoint.base_url}{request.path}"
    connection = http.client.HTTPConnection(endpoint.connect_host, endpoint.port, timeout=timeout_s)
    deadline_s = time.monotonic() + timeout_s
    try:
        connection.request(
            request.method,
            request.path,
            body=None if request.body is None else request.body.encode(),
            headers={"Content-Type": "application/json", **dict(endpoint.headers)},
        )
        response = connection.getresponse()
        return HttpAnswer(status=response.status, body=_read_body(connection, response, deadline_s))
    except TimeoutError as error:
        raise ServerUnreachable(f"{what}: `an answer within {timeout_s:g} s` must come, got none.") from error
    except http.client.RemoteDisconnected as error:
        raise ServerUnreachable(f"{what}: the server closed the connection without an answer.") from error
    except http.client.HTTPException as error:
        raise ProtocolError(
            f"{what}: `the answer is HTTP` must hold, got {type(error).__name__}: {ascii(str(error))[:80]}; "
            "is another program on this port?"
        ) from error
    except (OSError, ValueError) as error:
        raise ServerUnreachable(f"{what}: no connection ({error}).") from error
    finally:
        connection.close()


def _read_body(
    connection: http.client.HTTPConnection, response: http.client.HTTPResponse, deadline_s: float
) -> str:
    """The body, read piece by piece so that a trickling server cannot hold us past the deadline."""
    pieces: list[bytes] = []
    num_bytes = 0
    while piece := response.read1(65_536):
        pieces.append(piece)
        num_bytes += len(piece)
        left_s = deadline_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        if num_bytes > MAX_BODY_BYTES:
            raise ProtocolError(f"answer: `at most {MAX_BODY_BYTES} bytes` must hold; it is longer.")
        if connection.sock is not None:
            connection.sock.settimeout(left_s)
    return b"".join(pieces).decode(errors="replace")
