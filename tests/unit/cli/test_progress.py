import io
from dataclasses import replace

from spectune.cli.progress import Pace, StudyProgress
from spectune.domain.trial import PlannedCell
from spectune.testing.recording import FakeClock
from spectune.testing.study_values import make_completed, make_failed


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def watch(stream: io.StringIO) -> str:
    clock = FakeClock()
    completed, failed = make_completed(1, 0, {1: 100}), make_failed(2, 1)
    with StudyProgress(clock, Pace(max_trials=2, guess_s=10, seconds=[]), stream) as progress:
        progress.trial_started(completed.trial)
        progress.trial_ready(completed.trial, completed.effective, 1.5)
        progress.level_started(completed.trial, 1, 60)
        clock.advance(12)
        progress.request_done()
        progress.level_done(completed.trial, completed.levels[0])
        progress.trial_done(completed)
        progress.trial_started(failed.trial)
        progress.trial_done(failed)
    return stream.getvalue()


def test_elsewhere_there_are_sparse_plain_lines() -> None:
    assert watch(io.StringIO()).splitlines() == [
        "[0.0 s] off: ready in 1.5 s, runs 48 requests at once",
        "[12 s] off at 1: 100.0 tok/s",
        "[12 s] eagle 1: no result: the server ran out of memory; lower --max-running-requests.",
    ]


def test_later_trials_say_what_they_measure_again() -> None:
    stream, clock = io.StringIO(), FakeClock()
    completed = make_completed(3, 0, {4: 100})
    trial = replace(completed.trial, role="confirm", cells=(PlannedCell(concurrency=4, part="fresh"),))
    with StudyProgress(clock, Pace(max_trials=1, guess_s=10, seconds=[]), stream) as progress:
        progress.trial_started(trial)
        progress.level_done(trial, replace(completed.levels[0], part="fresh"))
    assert stream.getvalue() == "[0.0 s] off, again at 4 on fresh prompts: 100.0 tok/s\n"


def test_on_a_terminal_there_is_a_bar_with_the_time_left() -> None:
    text = watch(Terminal())
    assert "off at 1: 100.0 tok/s" in text
    assert "left" in text


def test_without_a_budget_the_time_left_is_told_after_each_trial() -> None:
    stream, clock = io.StringIO(), FakeClock()
    pace = Pace(max_trials=4, guess_s=120, seconds=[], fewest_trials=3)
    with StudyProgress(clock, pace, stream) as progress:
        for number in range(1, 5):
            completed = make_completed(number, 0, {4: 100})
            progress.trial_started(completed.trial)
            clock.advance(30)
            progress.trial_done(completed)
    assert stream.getvalue().splitlines() == [
        "[30 s] 1 min 0 s to 1 min 30 s left at the pace so far",
        "[1 min 0 s] 30 s to 1 min 0 s left at the pace so far",
        "[1 min 30 s] at most 30 s left at the pace so far",
    ]


def test_pace_learns_from_the_trials_that_ended() -> None:
    pace = Pace(max_trials=4, guess_s=10, seconds=[])
    assert pace.remaining_s(0) == 40
    assert pace.share(5) == 5 / 40
    pace.seconds.append(20.0)
    assert pace.remaining_s(5) == 15 + 2 * 20
    assert pace.share(5) == 25 / 80


def test_a_slow_trial_never_passes_the_end() -> None:
    pace = Pace(max_trials=1, guess_s=10, seconds=[])
    assert pace.share(1000) == 1.0
    assert pace.remaining_s(1000) == 0.0
