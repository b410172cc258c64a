"""A small blocking HTTP client for probes: readiness, settings, counters, flush. Bounded in time and size."""

import http.client
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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
        with _cut_off_at(deadline_s, connection):
            response = connection.getresponse()
            return HttpAnswer(status=response.status, body=_read_body(response, deadline_s))
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


@contextmanager
def _cut_off_at(deadline_s: float, connection: http.client.HTTPConnection) -> Iterator[None]:
    """Shuts the connection down at the deadline and raises TimeoutError.

    The socket's own timeout starts anew with every byte: headers that trickle, or `100 Continue` without
    end, would hold us for ever.
    """
    assert connection.sock is not None, "the request was sent"
    timer = threading.Timer(deadline_s - time.monotonic(), _shut_down, (connection.sock,))
    timer.start()
    try:
        yield
    except (http.client.HTTPException, OSError) as error:
        if time.monotonic() >= deadline_s:
            raise TimeoutError from error
        raise
    finally:
        timer.cancel()
        timer.join()


def _shut_down(connection: socket.socket) -> None:
    with suppress(OSError):  # closed in the meantime
        connection.shutdown(socket.SHUT_RDWR)


def _read_body(response: http.client.HTTPResponse, deadline_s: float) -> str:
    """The body; of bounded length."""
    pieces: list[bytes] = []
    num_bytes = 0
    while piece := response.read1(65_536):
        pieces.append(piece)
        num_bytes += len(piece)
        if num_bytes > MAX_BODY_BYTES:
            raise ProtocolError(f"answer: `at most {MAX_BODY_BYTES} bytes` must hold; it is longer.")
    if time.monotonic() >= deadline_s:  # an end that we made ourselves
        raise TimeoutError
    return b"".join(pieces).decode(errors="replace")
