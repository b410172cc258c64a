import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from spectune.domain.command import HttpRequest
from spectune.domain.endpoint import Endpoint
from spectune.errors import ProtocolError, ServerUnreachable
from spectune.launch.http_probe import MAX_BODY_BYTES, fetch
from spectune.testing.recording import free_port

GET = HttpRequest(method="GET", path="/x")


@contextmanager
def answering(answer: bytes, *, hold: bool = False) -> Iterator[Endpoint]:
    """A server that says `answer` to one connection, and keeps it open when told to hold."""
    done = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65_536)
                try:
                    connection.sendall(answer)
                except OSError:
                    return
                if hold:
                    done.wait(5)

        thread = threading.Thread(target=serve)
        thread.start()
        yield Endpoint(host="127.0.0.1", port=listener.getsockname()[1], api_key="k")
        done.set()
        thread.join()


@contextmanager
def trickling(start: bytes, drop: bytes) -> Iterator[Endpoint]:
    """A server that says `start`, then a drop ever so often for some seconds."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection, suppress(OSError):
                connection.recv(65_536)
                connection.sendall(start)
                for _ in range(50):
                    connection.sendall(drop)
                    time.sleep(0.1)

        thread = threading.Thread(target=serve)
        thread.start()
        yield Endpoint(host="127.0.0.1", port=listener.getsockname()[1])
        thread.join()


def test_any_status_is_an_answer() -> None:
    with answering(b"HTTP/1.1 503 No\r\nContent-Length: 4\r\n\r\nbusy") as endpoint:
        answer = fetch(endpoint, GET, timeout_s=5)
    assert (answer.status, answer.body) == (503, "busy")


@pytest.mark.parametrize(
    "garbage", [b"\x00\x01\x02 nonsense\r\n\r\n", b"HTTP/1.1 abc\r\n\r\n", b"SSH-2.0-x\r\n"]
)
def test_what_is_not_http_is_unreadable(garbage: bytes) -> None:
    with answering(garbage) as endpoint, pytest.raises(ProtocolError, match="is HTTP"):
        fetch(endpoint, GET, timeout_s=5)


def test_an_endless_answer_is_cut_off() -> None:
    endless = b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * (MAX_BODY_BYTES + 70_000)
    with answering(endless) as endpoint, pytest.raises(ProtocolError, match="at most"):
        fetch(endpoint, GET, timeout_s=20)


def test_a_silent_server_is_given_up() -> None:
    with answering(b"", hold=True) as endpoint, pytest.raises(ServerUnreachable, match="got none"):
        fetch(endpoint, GET, timeout_s=0.2)


def test_a_body_that_stops_half_way_is_given_up() -> None:
    half = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"
    with answering(half, hold=True) as endpoint, pytest.raises(ServerUnreachable):
        fetch(endpoint, GET, timeout_s=0.3)


@pytest.mark.parametrize("drop", [b"HTTP/1.1 100 Continue\r\n\r\n", b"x", b"x: y\r\n"])
def test_an_answer_that_trickles_is_given_up_in_time(drop: bytes) -> None:
    began_s = time.monotonic()
    with trickling(b"HTTP/1.1 200 OK\r\n" if drop.startswith(b"x") else b"", drop) as endpoint:
        with pytest.raises(ServerUnreachable, match="got none"):
            fetch(endpoint, GET, timeout_s=0.5)
        assert time.monotonic() - began_s < 2


def test_nobody_there_is_unreachable() -> None:
    with pytest.raises(ServerUnreachable, match="no connection"):
        fetch(Endpoint(host="127.0.0.1", port=free_port()), GET, timeout_s=1)


def test_a_connection_closed_without_a_word_is_unreachable() -> None:
    with answering(b"") as endpoint, pytest.raises(ServerUnreachable):
        fetch(endpoint, GET, timeout_s=5)
