from spectune.domain.command import Command
from spectune.domain.endpoint import Endpoint
from spectune.tuning.trial_failure import LOG_TAIL_LINES, masked, tail


def test_keys_flags_and_secret_variables_are_masked_wherever_they_stand() -> None:
    command = Command(
        argv=("serve", "--api-key", "key-1", "--hf-token=key-2"),
        env=(("HF_TOKEN", "key-3"), ("HOME", "/home")),
    )
    text = masked("key-1 key-2 x=key-3 /home serve", command, Endpoint(host="h", port=1, api_key="key-1"))
    assert text == "**** **** x=**** /home serve"


def test_a_tail_is_the_last_lines() -> None:
    log = "\n".join(str(number) for number in range(100))
    assert tail(log).splitlines() == [str(number) for number in range(100 - LOG_TAIL_LINES, 100)]


def test_a_tail_has_no_endless_lines_and_no_colours() -> None:
    cut, coloured = tail("x" * 100_000 + "\n\x1b[31mERROR\x1b[0m").splitlines()
    assert len(cut) < 500
    assert coloured == "ERROR"
