import time

import pytest

from spectune.domain.command import Command
from spectune.storage.masking import mask_text, secrets_of


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("Authorization: Bearer abc.def", "Authorization: Bearer ****"),
        ("https://me:pw@host/x", "https://****@host/x"),
        ("api_key=abcdefgh&x=1", "api_key=****&x=1"),
        ('{"hf_token": "hf_abcdefghijk"}', '{"hf_token": "****"}'),
        ("--api-key=longsecret next", "--api-key=**** next"),
        ("sk-abcdefghijkl", "****"),
    ],
)
def test_what_looks_like_a_secret_is_masked(text: str, masked: str) -> None:
    assert mask_text(text) == masked


@pytest.mark.parametrize(
    "text",
    [
        "max_total_num_tokens=455357",
        "num_draft_tokens: 4",
        "token_count=12345678",
        "http://127.0.0.1:30000/v1",
        "generated tokens: 1234567",
    ],
)
def test_figures_and_addresses_stay(text: str) -> None:
    assert mask_text(text) == text


def test_a_long_line_is_masked_in_no_time() -> None:
    began_s = time.monotonic()
    assert mask_text("x" * 200_000 + " my_token=abcdefgh").endswith("x my_token=****")
    assert time.monotonic() - began_s < 2


def test_secrets_of_a_command_are_flags_and_environment() -> None:
    command = Command(
        argv=("serve", "--api-key", "first-one", "--token=second", "--port", "80"),
        env=(("MY_TOKEN", "third-secret"), ("PATH", "/bin"), ("API_KEY", "x")),
    )
    assert secrets_of(command) == ("third-secret", "first-one", "second")


def test_known_secrets_are_masked_wherever_they_stand() -> None:
    assert mask_text("prefixSECRETsuffix", ("SECRET",)) == "prefix****suffix"
