import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.domain.command import Command
from spectune.engines.words import engine_words, find_engine, is_image, is_in_container, program
from spectune.errors import ConfigError


def starts(words: tuple[str, ...]) -> int:
    return 2 if program(words) == "vllm" and words[1:2] == ("serve",) else 0


WORD = st.text(min_size=1, max_size=8).filter(lambda word: "\x00" not in word)


@pytest.mark.parametrize(
    "argv",
    [
        ("vllm", "serve", "m"),
        ("/opt/bin/vllm", "serve", "m"),
        ("env", "-u", "X", "A=1", "vllm", "serve", "m"),
        ("sudo", "-u", "me", "numactl", "-N0", "vllm", "serve", "m"),
        ("bash", "-c", "vllm serve m"),
        ("/bin/sh", "-ec", "A=1 exec vllm serve m"),
        ("bash", "-e", "-u", "-c", "cd /; vllm serve m"),
        ("docker", "run", "img", "bash", "-lc", "vllm serve m"),
        ("bash", "--login", "-c", "vllm serve m"),
    ],
)
def test_an_engine_is_found_behind_what_starts_it(argv: tuple[str, ...]) -> None:
    found = find_engine(Command(argv=argv), starts)
    assert found is not None
    assert found.arguments == ("m",)


@pytest.mark.parametrize(
    "argv", [(), ("bash", "-c"), ("echo", "vllm serve m"), ("grep", "-c", "vllm serve m"), ("vllm", "bench")]
)
def test_what_starts_no_engine_is_not(argv: tuple[str, ...]) -> None:
    assert find_engine(Command(argv=argv), starts) is None


def test_a_command_of_another_engine_is_refused_with_its_secrets_masked() -> None:
    with pytest.raises(ConfigError) as caught:
        engine_words(Command(argv=("sleep", "--api-key", "s3cret")), starts, "vLLM")
    assert "vLLM" in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_a_value_that_the_shell_expands_cannot_be_read() -> None:
    words = engine_words(Command(argv=("sh", "-c", "vllm serve m --port $PORT")), starts, "vLLM")
    assert words.fixed(1) == "--port"
    with pytest.raises(ConfigError, match="PORT"):
        words.fixed(2)


def test_a_redirection_between_arguments_stays() -> None:
    words = engine_words(Command(argv=("sh", "-c", "vllm serve m > log --k 3 2>&1 && x")), starts, "vLLM")
    changed = words.changed(frozenset({1, 2}), ("--k", "a b"))
    assert changed.argv[2] == "vllm serve m > log --k 'a b' 2>&1 && x"


@given(st.lists(WORD, max_size=6), st.lists(WORD, max_size=3), st.data())
def test_only_the_asked_words_change_in_words_and_in_text(
    arguments: list[str], added: list[str], data: st.DataObject
) -> None:
    removed = data.draw(st.frozensets(st.integers(0, len(arguments) - 1))) if arguments else frozenset()
    kept = [word for place, word in enumerate(arguments) if place not in removed]
    argv = ("vllm", "serve", *arguments)
    direct = engine_words(Command(argv=argv), starts, "vLLM").changed(removed, tuple(added))
    assert direct.argv == ("vllm", "serve", *kept, *added)
    text = f"cd x && {shlex.join(argv)} > log; echo"
    inside = engine_words(Command(argv=("bash", "-c", text, "arg0")), starts, "vLLM").changed(
        removed, tuple(added)
    )
    assert inside.argv[:2] + inside.argv[3:] == ("bash", "-c", "arg0")
    head, tail = inside.argv[2][:8], inside.argv[2][-12:]
    assert (head, tail) == ("cd x && ", " > log; echo")
    assert tuple(shlex.split(inside.argv[2][8:-12])) == direct.argv


def test_nothing_added_or_removed_leaves_a_text_as_it_was() -> None:
    text = 'A="$B" vllm serve  m \\\n\t--x="y z"  # end'
    words = engine_words(Command(argv=("sh", "-c", text)), starts, "vLLM")
    assert words.changed(frozenset(), ()).argv[2] == text


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("vllm/vllm-openai:latest", "--model"), True),
        (("registry:5000/team/vllm-openai@sha256:ab", "-tp"), True),
        (("vllm-openai", "--gpus"), False),  # the value of --name
        (("vllm/vllm-openai", "bash"), False),
        (("vllm/other", "--x"), False),
    ],
)
def test_an_image_with_arguments_only_is_told_from_a_name(words: tuple[str, ...], expected: bool) -> None:
    assert is_image(words, "vllm-openai") is expected


def test_a_container_is_told_from_other_runners() -> None:
    assert is_in_container(("sudo", "/usr/bin/docker", "run", "img", "vllm", "serve"))
    assert not is_in_container(("uv", "run", "vllm", "serve"))
