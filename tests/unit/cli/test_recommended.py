from dataclasses import replace

import pytest

from spectune.analysis.answers import StudyAnswers, answer
from spectune.cli.recommended import Wanted, recommended, recommended_schedule
from spectune.domain.command import Command
from spectune.domain.spec_config import OFF, SpecConfig
from spectune.engines.embedded import EmbeddedAdapter
from spectune.engines.llamacpp import LlamacppAdapter
from spectune.engines.sglang import SglangAdapter
from spectune.engines.vllm import VllmAdapter
from spectune.errors import ConfigError
from spectune.testing.proved_study import SCHEDULE, proved_study
from spectune.testing.study_values import make_history, make_study

SCHEDULED = Wanted(config=SpecConfig.chain("eagle", 3), schedule=SCHEDULE)
FILE = "/run/file.json"


def answers(**words: object) -> StudyAnswers:
    return answer(proved_study(**words), lambda _: ())  # type: ignore[arg-type]


def test_the_fixed_setting_and_the_schedule_are_two_answers() -> None:
    assert recommended(answers()) == Wanted(config=SpecConfig.chain("eagle", 1))
    assert recommended_schedule(answers()) == SCHEDULED


def test_a_schedule_that_loses_or_was_not_measured_is_not_put_in_place() -> None:
    losing = answers(schedule={1: 90.0, 4: 300.0, 16: 700.0, 32: 900.0})
    with pytest.raises(ConfigError, match=r"1-8:3,9-22:1,23-:0 loses \(.*slower") as caught:
        recommended_schedule(losing)
    assert caught.value.exit_status == 2
    unmeasured = replace(answers(), schedule=None)
    with pytest.raises(ConfigError, match="it has none"):
        recommended_schedule(unmeasured)


def test_a_study_that_recommends_nothing_is_the_users_mistake() -> None:
    with pytest.raises(ConfigError, match="it recommends none"):
        recommended(answer(make_history(make_study(), ()), lambda _: ()))


def test_each_engine_gets_its_own_form() -> None:
    started = SCHEDULED.started(EmbeddedAdapter(), Command(argv=("spectune", "serve", "--port", "1")), FILE)
    assert " ".join(started.command.argv).endswith(f"EAGLE --speculative-schedule {SCHEDULE.label}")
    assert started.file_text == ""
    vllm = replace(SCHEDULED, config=SpecConfig.chain("ngram", 3))
    words = vllm.started(VllmAdapter(), Command(argv=("vllm", "serve", "m")), FILE).command.argv
    assert "[[1, 8, 3], [9, 22, 1], [23, 1024, 0]]" in words[-1]
    sglang = Command(
        argv=("python", "-m", "sglang.launch_server", "--model-path", "m", "--speculative-algorithm", "EAGLE",
              "--speculative-draft-model-path", "d", "--speculative-num-steps", "2",
              "--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "3"),
    )  # fmt: skip
    told = SCHEDULED.started(SglangAdapter(), sglang, FILE)
    assert FILE in told.command.argv
    assert '"9": {"candidate_steps": [1]}' in told.file_text


def test_an_engine_without_schedules_says_so() -> None:
    with pytest.raises(ConfigError, match=r"llamacpp can run .*cannot change the draft length while it runs"):
        SCHEDULED.started(LlamacppAdapter(), Command(argv=("llama-server", "-m", "m.gguf")), FILE)


def test_a_fixed_setting_takes_a_schedules_flags_away() -> None:
    command = SCHEDULED.started(EmbeddedAdapter(), Command(argv=("spectune", "serve")), FILE).command
    off = Wanted(config=OFF).started(EmbeddedAdapter(), command, FILE)
    assert (off.command.argv, off.file_text) == (("spectune", "serve"), "")
