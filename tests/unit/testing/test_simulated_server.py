import pytest

from spectune.domain.spec_config import OFF, SpecConfig
from spectune.engines.embedded import EmbeddedAdapter
from spectune.testing.simulated_server import parse_arguments, requested_config, simulated_engine
from spectune.testing.simulation import simulated_command


@pytest.mark.parametrize("config", [OFF, SpecConfig.chain("eagle", 4), SpecConfig.chain("ngram", 1)])
def test_it_takes_the_flags_that_the_dialect_writes(config: SpecConfig) -> None:
    command = EmbeddedAdapter().command_for(simulated_command(), config)
    assert requested_config(parse_arguments(command.argv[3:])) == config


def test_time_can_be_stretched() -> None:
    plain, slow = (simulated_engine(parse_arguments(["--sim-time-scale", str(scale)])) for scale in (1, 3))
    assert slow.step_s(OFF, 4) == pytest.approx(3 * plain.step_s(OFF, 4))


@pytest.mark.parametrize("flags", [("--speculative-algorithm", "MAGIC"), ("--sim-fault", "explode")])
def test_a_bad_flag_ends_it_with_status_2(flags: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit) as caught:
        parse_arguments(flags)
    assert caught.value.code == 2
