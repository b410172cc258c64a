import pytest

from spectune.domain.command import Command
from spectune.engines.arguments import Flags
from spectune.engines.publishing import endpoint_of
from spectune.engines.vllm import starts
from spectune.engines.words import engine_words
from spectune.errors import ConfigError


def flags(text: str) -> Flags:
    return Flags(words=engine_words(Command(argv=tuple(text.split())), starts, "vLLM"))


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("vllm serve m", "http://127.0.0.1:8000"),
        ("vllm serve m --host 0.0.0.0 --port 81", "http://127.0.0.1:81"),
        ("docker run -p 9000:8000 vllm/vllm-openai:v1 --model m", "http://127.0.0.1:9000"),
        (
            "docker run --publish=127.0.0.1:9001:8000/tcp vllm/vllm-openai:v1 --model m",
            "http://127.0.0.1:9001",
        ),
        ("docker run -p 9000:81 -p 9002:8000 vllm/vllm-openai:v1 --model m", "http://127.0.0.1:9002"),
        ("docker run --network host vllm/vllm-openai:v1 --model m --port 82", "http://127.0.0.1:82"),
        ("docker run -p 8000 vllm/vllm-openai:v1 --model m", "http://127.0.0.1:8000"),
    ],
)
def test_the_address_is_that_of_the_published_port(text: str, url: str) -> None:
    assert endpoint_of(flags(text), default_port=8000).base_url == url


def test_a_published_port_that_is_no_number_is_refused() -> None:
    for port in ("$P", "٣٠"):
        with pytest.raises(ConfigError, match="HOST:CONTAINER"):
            endpoint_of(flags(f"docker run -p {port}:8000 vllm/vllm-openai:v1 --model m"), default_port=8000)
