from dataclasses import replace

from spectune.analysis.answers import answer
from spectune.domain.spec_config import SpecConfig
from spectune.domain.study import StudyHistory
from spectune.domain.trial import Completed, UnfinishedTrial
from spectune.report.study_document import study_document
from spectune.report.terminal import WIDTH, render_terminal
from spectune.testing.study_values import (
    history_of,
    make_completed,
    make_failed,
    make_history,
    make_level,
    make_study,
    make_trial,
)


def launch_args(config: SpecConfig) -> tuple[str, ...]:
    return () if config.is_off else ("--speculative-algorithm", "EAGLE", "--steps", str(config.num_steps))


def page(history: StudyHistory) -> str:
    return render_terminal(study_document(answer(history, launch_args)))


def row(text: str, label: str) -> str:
    return next(line for line in text.splitlines() if line.startswith(f"  {label} "))


def test_the_page_has_table_winners_crossover_and_recommendation() -> None:
    text = page(history_of({0: {1: 100, 16: 1000}, 2: {1: 200, 16: 700}}))
    assert row(text, "off").split() == ["off", "100.0", "1000*", "–", "48", "completed"]
    assert row(text, "eagle 2").split()[2:6] == ["200.0*", "700.0", "2.00", "46"]
    assert "at 1: eagle 2, 200.0 tok/s, 2.00× of off; 100% ahead of off [+" in text
    assert "eagle 2 → off between 1 and 16 concurrent requests" in text
    assert "Recommendation: eagle 2" in text
    assert "--speculative-algorithm EAGLE --steps 2" in text
    assert max(map(len, text.splitlines())) <= WIDTH


def test_the_machine_is_told_with_its_gpus() -> None:
    history = history_of({0: {1: 100}})
    assert "GPU" not in page(history)
    gpus = ("NVIDIA H200, driver 580.159.04",) * 2
    study = replace(history.study, environment=replace(history.study.environment, gpus=gpus))
    told = " ".join(page(replace(history, study=study)).split())
    assert "machine: Test CPU, 2 CPUs, 8.0 GiB, Linux 6.1 x86_64; 2 × NVIDIA H200, driver 580.159.04" in told


def test_off_is_recommended_without_flags() -> None:
    text = page(history_of({0: {1: 100}, 2: {1: 80}}))
    assert "Recommendation: off" in text
    assert "Launch without any flags of speculation." in text


def test_a_failed_setting_shows_reason_and_log() -> None:
    study = make_study(concurrency=(1,))
    text = page(make_history(study, (make_completed(1, 0, {1: 100}), make_failed(2, 1))))
    assert row(text, "eagle 1").split() == ["eagle", "1", "–", "–", "–", "failed"]
    assert "eagle 1 (trial 2) failed: out of memory" in text
    assert "    MemoryError: cannot allocate the KV cache" in text


def test_an_arm_that_had_to_differ_is_marked() -> None:
    history = history_of({0: {1: 100}, 2: {1: 150}})
    outcome = history.outcomes[1]
    assert isinstance(outcome, Completed)
    effective = replace(outcome.effective, differs="--fraction 0.8 instead of 0.9")
    marked = replace(history, outcomes=(history.outcomes[0], replace(outcome, effective=effective)))
    assert "eagle 2 differs from the other arms: --fraction 0.8 instead of 0.9" in " ".join(
        page(marked).split()
    )
    assert "differs" not in page(history)


def test_a_disturbed_level_is_marked_and_explained() -> None:
    completed = make_completed(1, 0, {1: 100})
    disturbed = replace(completed, levels=(replace(completed.levels[0], foreign_cpu_share=0.5),))
    slower = make_completed(2, 1, {1: 80})
    text = page(make_history(make_study(concurrency=(1,)), (disturbed, slower)))
    assert "100.0~*" in text
    assert "~ disturbed by other processes" in text


def test_a_setting_that_was_measured_alone_has_won_nothing() -> None:
    off, eagle = make_completed(1, 0, {1: 100}), make_completed(2, 2, {1: 150, 8: 500})
    text = page(make_history(make_study(concurrency=(1, 8)), (off, eagle)))
    assert "150.0*" in text
    assert "499.6 " in text
    assert "at 8: only eagle 2, 499.6 tok/s, was measured, so nothing was won" in " ".join(text.split())
    assert "not known: fewer than two levels have more than one measured setting" in " ".join(text.split())


def test_an_interrupted_study_says_how_to_go_on() -> None:
    study = make_study(concurrency=(1, 8))
    cut_off = UnfinishedTrial(
        trial=make_trial(2, 1), effective=None, launch_s=None, levels=(make_level(1, 150, num_steps=1),)
    )
    history = make_history(study, (make_completed(1, 0, {1: 100, 8: 500}),), finished="")
    text = page(replace(history, unfinished=(cut_off,)))
    assert row(text, "eagle 1").split() == ["eagle", "1", "150.0", "–", "1.50", "–", "unfinished"]
    assert "spectune tune --resume study-1" in text


def test_nothing_measured_is_a_page_too() -> None:
    text = page(make_history(make_study(concurrency=(1,)), (make_failed(1, 0),)))
    assert "None: no setting was measured at every level." in text
    assert "Winners" not in text


def test_a_tie_names_the_rule() -> None:
    assert "a tie within 1%" in page(history_of({0: {1: 100}, 1: {1: 199.5}, 2: {1: 200}})).replace(
        "\n    ", " "
    )


def test_many_levels_still_fit_the_width() -> None:
    levels = {2**power: 100.0 * 2**power for power in range(12)}
    text = page(history_of({0: levels, 1: {level: 1.5 * speed for level, speed in levels.items()}}))
    assert max(map(len, text.splitlines())) <= WIDTH


def test_the_page_says_whether_a_service_was_away() -> None:
    history = history_of({0: {1: 100}})
    assert "no running service was stopped" in page(history)
    text = page(replace(history, study=replace(history.study, service="unit llm.service on gpu1")))
    assert "unit llm.service on gpu1 was away for about" in " ".join(text.split())
    assert "no running service was stopped" not in text


def test_commands_name_the_store_they_need() -> None:
    finished = history_of({0: {1: 100}})
    for history, command in ((finished, "spectune show"), (replace(finished, finished=""), "--resume")):
        told = answer(history, launch_args)
        text = " ".join(render_terminal(study_document(told, store_flag=" --store my.db")).split())
        assert f"{command} study-1 --store my.db`" in text
        assert "--store" not in render_terminal(study_document(told))
