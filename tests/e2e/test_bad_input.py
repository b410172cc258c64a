"""Everything a user can get wrong: one clear message, exit status 2 (or 1), nothing started, nothing lost."""

import socket
from pathlib import Path
from typing import Any

import pytest


def assert_refused(ran: Any, *parts: str, status: int = 2) -> None:
    assert ran.returncode == status, ran.stderr
    assert ran.stdout == ""
    assert ran.stderr.startswith("spectune: ")
    assert ran.stderr.count("\n") == 1
    for part in parts:
        assert part in ran.stderr


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["tune", "--frobnicate"], ["--frobnicate", "spectune tune --help"]),
        (["tune", "--num-steps", "3..1"], ["--num-steps", "3..1"]),
        (["tune", "--concurrency", "none"], ["--concurrency", "none"]),
        (["show", "--frobnicate"], ["--frobnicate", "spectune show --help"]),
        (["frobnicate"], ["frobnicate", "spectune --help"]),
        (["tune", "--", "no-engine", "serve", "model"], ["no-engine", "vllm serve", "llama-server"]),
        (["tune", "--", "trtllm-serve", "m"], ["TensorRT-LLM"]),
        (["tune", "--", "no-such-folder/vllm", "serve", "model"], ["no-such-folder/vllm", "on PATH"]),
        (["tune", "--", "sglang", "serve", "--speculative-num-step", "3"], ["--speculative-num-steps"]),
        (["tune", "--", "vllm", "serve", "m", "--speculative-config", "{"], ["--speculative-config", "JSON"]),
        (["tune", "--", "vllm", "serve", "m", "--config", "no-such.yaml"], ["no-such.yaml"]),
        (["tune", "--topk", "2", "--", "vllm", "serve", "m"], ["topk", "chains only"]),
        (["tune", "--method", "mtp"], ["mtp", "eagle"]),
        (["tune", "--engine", "llamacpp", "--model", "no-such.gguf"], ["no-such.gguf"]),
        (["tune", "--engine", "llamacpp", "--", "spectune", "serve"], ["--engine"]),
        (["tune", "--workload", "no-such-workload"], ["no-such-workload", "python-code"]),
        (["tune", "--resume"], ["--resume", "there is none"]),
        (["show", "last"], ["show last"]),
        (["show", "--json", "-"], ["STUDY"]),
        (["tune", "--", "spectune", "serve", "--port", "99999"], ["--port"]),
        (["tune", "--workload", "\udcff.jsonl"], ["UTF-8", "udcff"]),
        (["tune", "--resume", ""], ["--resume", "empty"]),
        (["tune", "--store", "", "--dry-run"], ["--store", "empty"]),
        (["show", "--json", "-", "--report", "-", "last"], ["stdout"]),
        (["tune", "--json", "x" * 300], ["--json", "File name too long"]),
    ],
)
def test_it_is_named(bench: Any, words: list[str], parts: list[str]) -> None:
    assert_refused(bench.run(*words), *parts)


@pytest.mark.parametrize("flag", ["--json", "--report"])
def test_an_output_file_that_cannot_be_written_is_found_before_anything_starts(bench: Any, flag: str) -> None:
    ran = bench.run("tune", *bench.question(), flag, "/proc/out", *bench.server())
    assert_refused(ran, flag, "/proc/out", "nothing was started")
    assert not bench.store.exists()


@pytest.mark.parametrize("taken", ["--store", "--workload", "--report"])
def test_an_output_file_that_is_another_one_too_is_refused(bench: Any, taken: str) -> None:
    words = [*bench.question(), "--store", "s.db", "--report", "r.md"]
    name = words[words.index(taken) + 1]
    ran = bench.run("tune", *words, "--json", name, *bench.server())
    assert_refused(ran, taken if taken != "--report" else "--json", "another file")


def test_an_output_file_that_is_there_is_not_emptied_by_the_check(bench: Any) -> None:
    (bench.folder / "keep.json").write_text("precious")
    bench.run("tune", *bench.question(), "--json", "keep.json", "--report", "/proc/out", *bench.server())
    assert (bench.folder / "keep.json").read_text() == "precious"


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "prompts.jsonl"),
        ("not json\n", "prompts.jsonl"),
        ('{"prompt": "x"}\n[1]\n', "prompts.jsonl"),
        ('{"max_tokens": 3}\n', "prompts.jsonl"),
    ],
)
def test_a_malformed_workload_is_named(bench: Any, text: str, part: str) -> None:
    (bench.folder / "prompts.jsonl").write_text(text)
    assert_refused(bench.run("tune", *bench.question(), *bench.server()), part)


def test_a_workload_that_is_not_text_is_named(bench: Any) -> None:
    (bench.folder / "prompts.jsonl").write_bytes(b"\xff\xfe\x00\x01")
    assert_refused(bench.run("tune", *bench.question(), *bench.server()), "UTF-8")


@pytest.mark.parametrize("command", ["tune", "show"])
def test_a_store_that_is_no_store_is_named_and_left_alone(bench: Any, command: str) -> None:
    notes = bench.folder / "notes.txt"
    notes.write_text("my notes\n" * 500)
    words = (
        [*bench.question(), "--store", str(notes), *bench.server()]
        if command == "tune"
        else ["--store", str(notes)]
    )
    assert_refused(bench.run(command, *words), str(notes), status=1)
    assert notes.read_text() == "my notes\n" * 500


def test_a_store_in_a_place_that_cannot_be_is_named(bench: Any) -> None:
    ran = bench.run("tune", *bench.question(), "--store", "/proc/studies.db", *bench.server())
    assert_refused(ran, "/proc/studies.db", status=1)


def test_a_store_with_an_impossible_name_is_named(bench: Any) -> None:
    for words in ([], ["last"]):
        assert_refused(bench.run("show", "--store", "x" * 300, *words), "File name too long", status=1)


def test_an_unknown_study_is_named(finished: Any) -> None:
    for command in (["show"], ["apply"], ["tune", "--resume"]):
        assert_refused(finished.run(*command, "nope"), "nope", "`spectune show` lists them")


def test_a_port_in_use_is_named(bench: Any) -> None:
    with socket.create_server(("127.0.0.1", bench.port)):
        ran = bench.run("tune", *bench.question(), *bench.server())
    assert ran.returncode == 1
    assert f"port {bench.port}" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_help_and_version_go_to_stdout(bench: Any) -> None:
    for words in (["--help"], ["tune", "--help"], ["show", "--help"], ["--version"]):
        ran = bench.run(*words)
        assert (ran.returncode, ran.stderr) == (0, "")
        assert "spectune" in ran.stdout
    assert bench.run().returncode == 2


def test_a_new_output_file_is_not_left_empty_by_the_check(bench: Any) -> None:
    bench.run("tune", *bench.question(), "--json", "new.json", "--report", "/proc/out", *bench.server())
    assert not Path(bench.folder / "new.json").exists()
