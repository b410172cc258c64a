from dataclasses import replace

from spectune.analysis.answers import StudyAnswers, answer
from spectune.domain.study import StudyHistory
from spectune.report.proof_sections import (
    arms_in_order,
    crossover_section,
    proof_section,
    schedule_section,
    speedup_section,
)
from spectune.report.study_document import study_document
from spectune.report.terminal import WIDTH, render_terminal
from spectune.testing.proved_study import proved_study
from spectune.testing.study_values import history_of, make_completed, make_history, make_level, make_study


def answers_of(history: StudyHistory) -> StudyAnswers:
    return answer(history, lambda _: (), lambda _, found: {"embedded": f"--schedule {found.label}"})


def page(history: StudyHistory) -> str:
    return render_terminal(study_document(answers_of(history)))


def flat(text: str) -> str:
    return " ".join(text.split())


def test_a_study_that_proved_everything_is_one_page() -> None:
    text = page(proved_study())
    assert max(map(len, text.splitlines())) <= WIDTH
    assert "eagle 1 150.0 478." in flat(text)
    assert "2 launches" in text
    assert "2.00× / 2.00×" in text  # eagle 3, whose limit it is
    assert "1.50× / –" in text  # eagle 1 runs more at once
    assert "That one runs 17 at once, the limit of eagle 3; what runs more is not set" in flat(text)
    assert "÷ off at its own capacity (trial 1) / ÷ off at equal limits (trial 8)." in text
    assert "eagle 1 → off between 16 and 23" in flat(text)
    assert "(certain between 16 and 32)" in flat(text)
    assert "Schedule 1-8:3,9-22:1,23-:0\n  Recommended: over the levels it is" in text
    assert "up to 32 and down" in text
    assert "--schedule 1-8:3,9-22:1,23-:0" in text
    assert "- confirmation: confirmed on fresh prompts" in text
    assert "- lossless: exact" in text
    assert "- noise: a launch varies by" in text


def test_settings_come_first_then_off_at_equal_limits_and_the_schedule() -> None:
    labels = [arm.arm.config.label for arm in arms_in_order(answers_of(proved_study()))]
    assert labels == ["off", "eagle 1", "eagle 3", "off", "eagle 3"]


def test_a_search_alone_has_a_short_page() -> None:
    answers = answers_of(history_of({0: {1: 100, 8: 300}, 2: {1: 150, 8: 280}}))
    assert schedule_section(answers) is None
    proof, changes, speedups = (make(answers) for make in (proof_section, crossover_section, speedup_section))
    assert proof is not None
    assert changes is not None
    assert speedups is not None
    assert "schedule: the winners suggest 1-2:2,3-:0 (steps by running requests)" in page_of(proof)
    assert "break-even with off between 1 and 8" in page_of(changes)
    assert "so its limits are equal" in page_of(speedups)


def page_of(section: object) -> str:
    return repr(section)


def test_refined_levels_show_in_the_change_and_not_as_columns() -> None:
    text = page(proved_study())
    assert "at 23" not in text.split("Winners")[0]


def test_a_disturbed_levels_interval_is_told_in_words() -> None:
    calm, wild = make_completed(1, 0, {1: 100}), make_completed(2, 2, {1: 150})
    levels = (replace(make_level(1, 150, num_steps=2), foreign_cpu_share=0.97),)
    history = make_history(make_study(concurrency=(1,)), (calm, replace(wild, levels=levels)))
    text = page(history)
    assert "(too noisy to tell)" in text
    assert "At 1 the intervals are so wide that they tell nothing." in flat(text)
    assert "+2" not in text.split("Winners")[1].split("Where")[0]


def test_nothing_measured_has_no_proof() -> None:
    answers = answers_of(make_history(make_study(), ()))
    assert proof_section(answers) is None
    assert crossover_section(answers) is None
    assert speedup_section(answers) is None
