"""A study's progress on stderr: a bar with ETA on a terminal, sparse plain lines elsewhere."""

import sys
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import Self, TextIO

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn
from rich.progress import Progress as RichProgress

from spectune.clock import Clock
from spectune.domain.measurement import LevelMeasurement
from spectune.domain.text import printable
from spectune.domain.trial import Completed, EffectiveSettings, Failed, Trial, TrialOutcome
from spectune.domain.workload import Part
from spectune.metrics.summary import summarise_level
from spectune.report import numbers

_PARTS: dict[Part, str] = {"search": "", "fresh": " on fresh prompts", "ramp": " at most, up and down"}


@dataclass(slots=True)
class Pace:
    """How far a study is, in trials and seconds.

    Attributes:
        max_trials: settings that may come.
        guess_s: seconds a trial is expected to take before one was seen.
        seconds: of the trials that ended.
        fewest_trials: settings that come in any case; None where the time left needs no telling, because
            the study has a budget.
    """

    max_trials: int
    guess_s: float
    seconds: list[float]
    fewest_trials: int | None = None

    @property
    def trial_s(self) -> float:
        """Seconds a trial is expected to take."""
        return sum(self.seconds) / len(self.seconds) if self.seconds else self.guess_s

    def remaining_s(self, elapsed_s: float) -> float:
        """Seconds to the end at most, `elapsed_s` into the current trial."""
        to_come = max(self.max_trials - len(self.seconds), 1)
        return max(self.trial_s - elapsed_s, 0.0) + self.trial_s * (to_come - 1)

    @property
    def left_text(self) -> str:
        """The time left once a trial has ended, for the user; "" where it needs no telling, or is over."""
        done = len(self.seconds)
        if self.fewest_trials is None or done >= self.max_trials:
            return ""
        longest = numbers.duration(self.trial_s * (self.max_trials - done))
        few = self.fewest_trials - done
        shortest = f"{numbers.duration(self.trial_s * few)} to " if few > 0 else "at most "
        return f"{shortest}{longest} left at the pace so far"

    def share(self, elapsed_s: float) -> float:
        """Part of the whole that is done, 0 to 1."""
        done = len(self.seconds) * self.trial_s + min(elapsed_s, self.trial_s)
        return min(done / (self.trial_s * max(self.max_trials, len(self.seconds) + 1)), 1.0)


class StudyProgress(AbstractContextManager["StudyProgress"]):
    """Writes a line for each trial and level; on a terminal with a bar below them."""

    def __init__(self, clock: Clock, pace: Pace, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._clock = clock
        self._pace = pace
        self._began_s = clock.monotonic_s()
        self._trial_began_s = self._began_s
        self._bar = _Bar(self._stream) if self._stream.isatty() else None

    def __enter__(self) -> Self:
        """Shows the bar."""
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Takes the bar away."""
        if self._bar is not None:
            self._bar.stop()

    def trial_started(self, trial: Trial) -> None:
        """Notes the launch."""
        self._trial_began_s = self._clock.monotonic_s()
        self._show(f"{_named(trial)}: starting the server")

    def trial_ready(self, trial: Trial, effective: EffectiveSettings, launch_s: float) -> None:
        """One line with launch time and capacity."""
        capacity = numbers.count(effective.max_running_requests)
        differs = f"; {effective.differs}" if effective.differs else ""
        self._say(
            f"{_named(trial)}: ready in {numbers.duration(launch_s)}, runs {capacity} requests at once"
            f"{differs}"
        )

        self._show(f"{_named(trial)}: ready")

    def level_started(self, trial: Trial, concurrency: int, num_requests: int) -> None:
        """Names the level on the bar."""
        self._show(f"{_named(trial)} at {concurrency} ({num_requests} requests)")

    def request_done(self) -> None:
        """Moves the bar."""
        self._show(None)

    def level_done(self, trial: Trial, level: LevelMeasurement) -> None:
        """One line with the speed."""
        summary = summarise_level(level)
        disturbed = ", disturbed by other processes" if summary.disturbed else ""
        speed = numbers.rate(summary.output_tps)
        self._say(f"{_named(trial)} at {level.concurrency}{_PARTS[level.part]}: {speed} tok/s{disturbed}")

    def trial_done(self, outcome: TrialOutcome) -> None:
        """One line where the trial did not complete."""
        self._pace.seconds.append(self._clock.monotonic_s() - self._trial_began_s)
        if isinstance(outcome, Completed):
            self._show(None)
        else:
            reason = outcome.detail if isinstance(outcome, Failed) else outcome.reason
            self._say(f"{_named(outcome.trial)}: no result: {reason}")
        if left := self._pace.left_text:
            self._say(left)

    def _say(self, line: str) -> None:
        line = printable(line)
        elapsed = numbers.duration(self._clock.monotonic_s() - self._began_s)
        if self._bar is not None:
            self._bar.print(f"[{elapsed}] {line}")
        else:
            self._stream.write(f"[{elapsed}] {line}\n")
            self._stream.flush()

    def _show(self, what: str | None) -> None:
        if self._bar is not None:
            elapsed_s = self._clock.monotonic_s() - self._trial_began_s
            left = numbers.duration(self._pace.remaining_s(elapsed_s))
            self._bar.move(self._pace.share(elapsed_s), what, left)


class _Bar:
    """The bar itself."""

    def __init__(self, stream: TextIO) -> None:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("at most {task.fields[left]} left"),
        )
        self._rich = RichProgress(*columns, console=Console(file=stream), transient=True)
        self._task: TaskID = self._rich.add_task("starting", total=1.0, left="?")

    def start(self) -> None:
        self._rich.start()

    def stop(self) -> None:
        self._rich.stop()

    def print(self, line: str) -> None:
        self._rich.console.print(line, markup=False, highlight=False)

    def move(self, share: float, what: str | None, left: str) -> None:
        if what is None:
            self._rich.update(self._task, completed=share, left=left)
        else:
            self._rich.update(self._task, completed=share, left=left, description=what)


def _named(trial: Trial) -> str:
    return f"{trial.label}, again" if trial.role in ("confirm", "refine") else trial.label
