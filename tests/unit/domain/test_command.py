import pytest

from spectune.domain.command import Command, is_secret_name, mask_argv, secret_values


@pytest.mark.parametrize(
    ("argv", "masked"),
    [
        (("s", "--api-key", "x1"), ("s", "--api-key", "****")),
        (("s", "--api-key=x1"), ("s", "--api-key=****")),
        (("env", "HF_TOKEN=x1", "s"), ("env", "HF_TOKEN=****", "s")),
        (("s", "--num-draft-tokens", "4"), ("s", "--num-draft-tokens", "4")),
        (("s", "--max-total-tokens=4"), ("s", "--max-total-tokens=4")),
        (("s", "--api-key"), ("s", "--api-key")),
        (("d", "-e", "HF_TOKEN=x1", "--env=API_KEY=x2"), ("d", "-e", "HF_TOKEN=****", "--env=API_KEY=****")),
        (("s", "http://u:x1@h/?api_key=x2&n=1"), ("s", "http://****@h/?api_key=****&n=1")),
        (
            ("bash", "-c", "HF_TOKEN=x1 exec s --api-key 'x 2' --hf-token=x3 --n 1; t"),
            ("bash", "-c", "HF_TOKEN=**** exec s --api-key **** --hf-token=**** --n 1; t"),
        ),
    ],
)
def test_values_of_secret_flags_are_masked(argv: tuple[str, ...], masked: tuple[str, ...]) -> None:
    assert mask_argv(argv) == masked


def test_the_printable_command_masks_its_environment() -> None:
    command = Command(argv=("serve", "a b"), env=(("MY_SECRET", "x1"), ("LANG", "C")))
    assert command.printable == "'MY_SECRET=****' LANG=C serve 'a b'"


def test_names_that_only_count_tokens_are_no_secrets() -> None:
    assert [is_secret_name(name) for name in ("HF_TOKEN", "api-key", "num-tokens", "KEYBOARD")] == [
        True, True, False, False,
    ]  # fmt: skip


def test_the_secrets_of_a_command_are_found_wherever_they_stand() -> None:
    command = Command(
        argv=("bash", "-c", "A_KEY=k1 exec s --api-key 'k 2'", "--token", "k3", "--password=k4"),
        env=(("MY_SECRET", "k5"), ("LANG", "C")),
    )
    assert secret_values(command) == {"k1", "k 2", "k3", "k4", "k5"}
    assert not any(secret in command.printable for secret in secret_values(command))
