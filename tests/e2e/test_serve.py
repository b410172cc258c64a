"""`spectune serve` as a real process: OpenAI's answers, capacity, cancellation, and nothing left behind."""

import contextlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

PROMPT = "import os\n\ndef read_file(path):\n"
EAGLE = ("--speculative-algorithm", "EAGLE", "--speculative-num-steps", "3")


@dataclass
class Server:
    """A running server."""

    process: subprocess.Popen[str]
    port: int

    def request(self, path: str, body: object = None, key: str | None = None) -> tuple[int, str]:
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data=data)
        if key:
            request.add_header("Authorization", f"Bearer {key}")
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def json(self, path: str, body: object = None) -> Any:
        status, text = self.request(path, body)
        assert status == 200, text
        return json.loads(text)

    def complete(self, **body: object) -> Any:
        return self.json("/v1/completions", {"prompt": PROMPT, "temperature": 0, "max_tokens": 24, **body})

    def metric(self, name: str) -> float:
        lines = self.request("/metrics")[1].splitlines()
        return next(float(line.split()[1]) for line in lines if line.startswith(f"spectune:{name} "))

    def wait_for(self, name: str, value: float) -> None:
        deadline = time.monotonic() + 20
        while self.metric(name) != value:
            assert time.monotonic() < deadline, f"{name} is {self.metric(name)}, not {value}"
            time.sleep(0.02)


@contextlib.contextmanager
def serving(*flags: str, port: int = 0) -> Iterator[Server]:
    process = subprocess.Popen(
        [sys.executable, "-m", "spectune", "serve", "--port", str(port), *flags],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert "ready on" in line, process.communicate()
        yield Server(process, int(line.rsplit(":", 1)[1]))
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            process.communicate(timeout=20)
            assert group_members(process.pid) == []
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def group_members(group: int) -> list[int]:
    """Living processes of a process group."""
    members = []
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError, IndexError):
            fields = (folder / "stat").read_text().rsplit(") ", 1)[1].split()
            if folder.name.isdigit() and int(fields[2]) == group and fields[0] != "Z":
                members.append(int(folder.name))
    return members


@pytest.fixture(scope="module")
def eagle() -> Iterator[Server]:
    with serving(*EAGLE) as server:
        yield server


def test_completions_are_python_and_their_usage_adds_up(eagle: Server) -> None:
    got = eagle.complete(max_tokens=40)
    usage = got["usage"]
    assert usage["completion_tokens"] == 40
    assert usage["total_tokens"] == usage["prompt_tokens"] + 40
    assert got["choices"][0]["finish_reason"] == "length"
    assert "def " in got["choices"][0]["text"] or "return" in got["choices"][0]["text"]


def test_a_stream_carries_the_same_text_and_counts_as_the_whole_answer(eagle: Server) -> None:
    whole = eagle.complete()
    options = {"stream": True, "stream_options": {"include_usage": True, "continuous_usage_stats": True}}
    status, raw = eagle.request(
        "/v1/completions", {"prompt": PROMPT, "temperature": 0, "max_tokens": 24, **options}
    )
    assert status == 200
    *events, end = [line[6:] for line in raw.split("\n\n") if line]
    assert end == "[DONE]"
    parsed = [json.loads(event) for event in events]
    assert "".join(e["choices"][0]["text"] for e in parsed if e["choices"]) == whole["choices"][0]["text"]
    counts = [e["usage"]["completion_tokens"] for e in parsed]
    assert counts == sorted(counts)
    assert counts[-1] == 24
    assert len(parsed) < 24, "an accepted draft gives several tokens in one event"


def test_chat_answers_have_openais_shape(eagle: Server) -> None:
    got = eagle.json(
        "/v1/chat/completions",
        {"messages": [{"role": "user", "content": "def add(a, b):"}], "max_tokens": 8, "temperature": 0},
    )
    assert got["object"] == "chat.completion"
    assert got["choices"][0]["message"]["role"] == "assistant"


def test_a_seed_repeats_a_sampled_answer_and_another_seed_does_not(eagle: Server) -> None:
    one, same, other = (eagle.complete(temperature=1, seed=seed) for seed in (1, 1, 2))
    assert one["choices"][0]["text"] == same["choices"][0]["text"] != other["choices"][0]["text"]


def test_a_stop_text_ends_the_answer_before_it(eagle: Server) -> None:
    whole = eagle.complete()["choices"][0]["text"]
    stop = whole[8:12]
    got = eagle.complete(stop=[stop])["choices"][0]
    assert (got["text"], got["finish_reason"]) == (whole[: whole.find(stop)], "stop")


def test_a_stop_text_ends_the_count_of_tokens_where_it_ends_the_text(eagle: Server) -> None:
    """Else a setting that drafts further would be paid for tokens that nobody gets."""
    with serving() as off:
        whole = off.complete()["choices"][0]["text"]
        for first in range(2, len(whole) - 4, 3):
            stop = whole[first : first + 4]
            expected, got = (server.complete(stop=[stop]) for server in (off, eagle))
            assert got["choices"] == expected["choices"]
            assert got["usage"]["completion_tokens"] == expected["usage"]["completion_tokens"]


def test_the_server_says_what_it_runs(eagle: Server) -> None:
    info = eagle.json("/server_info")
    assert (info["speculative_algorithm"], info["speculative_num_steps"]) == ("EAGLE", 3)
    assert (info["speculative_eagle_topk"], info["speculative_num_draft_tokens"]) == (1, 4)
    assert info["max_total_num_tokens"] == 1024 * info["max_running_requests"]
    assert eagle.json("/v1/models")["data"][0]["max_model_len"] == 1024
    assert eagle.request("/health")[0] == 200


def test_counters_move_and_keep_their_identity(eagle: Server) -> None:
    names = ("generated_tokens_total", "accepted_tokens_total", "verify_steps_total", "undrafted_steps_total")
    before = [eagle.metric(name) for name in names]
    eagle.complete(max_tokens=60, ignore_eos=True, prompt="class A:\n")
    generated, accepted, verified, undrafted = (
        eagle.metric(name) - then for name, then in zip(names, before, strict=True)
    )
    assert generated == 60
    assert accepted > 0
    assert undrafted == 0
    assert generated <= 1 + accepted + verified <= generated + 3


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"{not json", "not JSON"),
        ({"prompt": "x", "max_tokens": 2000}, "prompt tokens + max_tokens <= 1024"),
        ({"prompt": "x = 1\n" * 2000, "max_tokens": 1}, "shorten the prompt"),
        ({"prompt": "x", "n": 3}, "`n`"),
        (b'{"prompt": "\\ud800"}', "whole characters"),
    ],
)
def test_bad_requests_get_openais_400_and_are_never_cut(eagle: Server, body: object, words: str) -> None:
    status, text = eagle.request("/v1/completions", body)
    assert status == 400
    assert words in json.loads(text)["error"]["message"]
    assert json.loads(text)["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [("/nope", {}, 404), ("/v1/completions", None, 405), ("/v1/completions", b" " * (5 * 2**20), 413)],
)
def test_what_is_not_found_or_too_large_gets_openais_error_too(
    eagle: Server, path: str, body: object, status: int
) -> None:
    got, text = eagle.request(path, body)
    assert got == status
    assert json.loads(text)["error"]["type"] == "invalid_request_error"


def test_a_huge_prompt_is_refused_without_holding_up_the_streams_of_others(eagle: Server) -> None:
    began_s = time.monotonic()
    status, text = eagle.request("/v1/completions", {"prompt": "x = 1 " * 600_000, "max_tokens": 1})
    assert (status, json.loads(text)["error"]["param"]) == (400, "prompt")
    assert time.monotonic() - began_s < 2, "tokenizing it takes several seconds"


def test_the_prefix_cache_serves_a_repeated_prompt_until_it_is_flushed(eagle: Server) -> None:
    prompt = "".join(f"value_{n} = {n}\n" for n in range(20))
    cached = [
        eagle.complete(prompt=prompt)["usage"]["prompt_tokens_details"]["cached_tokens"] for _ in range(2)
    ]
    assert cached[0] == 0
    assert cached[1] > 50
    assert eagle.request("/flush_cache", {})[0] == 200
    again = eagle.complete(prompt=prompt)["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert again == 0


def open_stream(server: Server, max_tokens: int) -> socket.socket:
    """Sends a streaming request and reads its first bytes."""
    body = json.dumps(
        {"prompt": PROMPT, "max_tokens": max_tokens, "stream": True, "ignore_eos": True, "temperature": 0}
    )
    connection = socket.create_connection(("127.0.0.1", server.port))
    connection.sendall(
        f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
    )
    assert connection.recv(64).startswith(b"HTTP/1.1 200")
    return connection


def test_a_client_that_leaves_frees_its_slot_and_the_queue_moves_on() -> None:
    with serving("--max-running-requests", "2", *EAGLE) as server:
        streams = [open_stream(server, 900) for _ in range(2)]
        third: list[Any] = []
        waiter = threading.Thread(target=lambda: third.append(server.complete()))
        waiter.start()
        server.wait_for("num_requests_waiting", 1)
        assert server.request("/flush_cache", {})[0] == 400
        assert server.metric("num_requests_running") == 2
        streams[0].close()
        waiter.join(20)
        assert third
        assert third[0]["usage"]["completion_tokens"] == 24
        streams[1].close()
        server.wait_for("num_requests_running", 0)


def test_a_crowd_of_clients_that_leaves_at_once_blocks_nothing() -> None:
    """Their cancellations and the engine's answers to them fill both pipes."""
    body = b'{"prompt": "x", "max_tokens": 900, "stream": true, "ignore_eos": true}'
    head = b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s"
    with serving() as server:
        for request in (head % (b"/v1/completions", len(body), body), head % (b"/flush_cache", 0, b"")):
            crowd = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(600)]
            for client in crowd:
                client.sendall(request)
            time.sleep(1)
            server.process.send_signal(signal.SIGSTOP)  # so that it sees all of them leave at once
            for client in crowd:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                client.close()
            server.process.send_signal(signal.SIGCONT)
            server.wait_for("num_requests_running", 0)
            server.wait_for("num_requests_waiting", 0)
        assert server.complete()["usage"]["completion_tokens"] == 24
        server.process.send_signal(signal.SIGTERM)
        assert server.process.communicate(timeout=20)[1] == "", "clients that leave are no news for the log"


def test_an_api_key_is_asked_for_and_shown_nowhere() -> None:
    with serving("--api-key", "s3cret-key") as server:
        assert server.request("/v1/models")[0] == 401
        assert server.request("/v1/models", key="wrong")[0] == 401
        assert server.request("/v1/models", key="\xff")[0] == 401
        status, text = server.request("/server_info", key="s3cret-key")
        assert status == 200
        assert "s3cret" not in text
        assert server.request("/health")[0] == 200


def test_a_used_port_is_one_clear_line() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = subprocess.run(
            [sys.executable, "-m", "spectune", "serve", "--port", str(port)],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == f"spectune serve: cannot listen on 127.0.0.1:{port}: address already in use\n"


@pytest.mark.parametrize("victim", ["front", "engine"])
def test_when_one_process_is_killed_the_other_ends_too(victim: str) -> None:
    with serving(*EAGLE) as server:
        front = server.process.pid
        (engine,) = [pid for pid in group_members(front) if pid != front and _is_engine(pid)]
        os.kill(front if victim == "front" else engine, signal.SIGKILL)
        deadline = time.monotonic() + 10
        while group_members(front):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert server.process.wait(10) == (-signal.SIGKILL if victim == "front" else 1)


def _is_engine(pid: int) -> bool:
    return "cpu_engine.worker" in Path(f"/proc/{pid}/cmdline").read_text()


def test_termination_during_a_stream_leaves_no_process() -> None:
    with serving(*EAGLE) as server:
        stream = open_stream(server, 900)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(15) == 0
        stream.close()
