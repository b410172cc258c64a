import pytest

from spectune.domain.command import Command, is_secret_name, mask_argv


@pytest.mark.parametrize(
    ("argv", "masked"),
    [
        (("s", "--api-key", "x1"), ("s", "--api-key", "****")),
        (("s", "--api-key=x1"), ("s", "--api-key=****")),
        (("env", "HF_TOKEN=x1", "s"), ("env", "HF_TOKEN=****", "s")),
        (("s", "--num-draft-tokens", "4"), ("s", "--num-draft-tokens", "4")),
        (("s", "--max-total-tokens=4"), ("s", "--max-total-tokens=4")),
        (("s", "--api-key"), ("s", "--api-key")),
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
