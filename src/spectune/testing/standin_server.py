"""A server that is up in some 30 ms, for tests of how servers are kept. Standard library only.

    python -I -S standin_server.py --port N [--notify S] [--slow-stop S] [--die-after S] [anything…]

Every request is answered with JSON: its arguments, its process and the variables whose names begin with
`STANDIN_`. `--notify S` says READY=1 to systemd after S seconds, `--slow-stop S` ends so long after
SIGTERM, `--die-after S` ends with status 3.
"""

import json
import os
import signal
import socket
import sys
import time


def main(words: list[str]) -> int:
    """Serves until it is told to end."""
    listener = socket.create_server(("127.0.0.1", int(_value(words, "--port", "0"))))
    slow_s = float(_value(words, "--slow-stop", "0"))
    signal.signal(signal.SIGTERM, lambda *_: _end(slow_s))
    notify = _value(words, "--notify", "")
    if notify:
        time.sleep(float(notify))
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
            told.sendto(b"READY=1", os.environ["NOTIFY_SOCKET"].replace("@", "\0", 1))
    die_after = _value(words, "--die-after", "")
    if die_after:
        listener.settimeout(float(die_after))
    sys.stdout.write(f"stand-in listens: {' '.join(words)}\n")
    sys.stdout.flush()
    while True:
        try:
            client, _ = listener.accept()
        except TimeoutError:
            return 3
        _answer(client, words)


def _answer(client: socket.socket, words: list[str]) -> None:
    variables = {name: value for name, value in os.environ.items() if name.startswith("STANDIN_")}
    body = json.dumps({"argv": words, "pid": os.getpid(), "uid": os.getuid(), "env": variables}).encode()
    head = f"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    try:
        with client:
            client.settimeout(2.0)
            client.recv(65536)
            client.sendall(head.encode() + body)
    except OSError:
        return  # the client has gone


def _end(slow_s: float) -> None:
    time.sleep(slow_s)
    os._exit(0)


def _value(words: list[str], flag: str, default: str) -> str:
    return words[words.index(flag) + 1] if flag in words else default


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
