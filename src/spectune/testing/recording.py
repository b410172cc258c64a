"""Fakes and recorders for the seams: a hand-moved clock, a progress that writes a list, free ports."""

import socket
from dataclasses import dataclass, field

from spectune.domain.measurement import LevelMeasurement
from spectune.domain.trial import EffectiveSettings, Trial, TrialOutcome
from spectune.domain.workload import LoadPlan


@dataclass(slots=True)
class FakeClock:
    """A clock that moves only when someone sleeps or `advance`s it."""

    now_s: float = 1000.0

    def monotonic_s(self) -> float:
        """The time set so far."""
        return self.now_s

    def unix_s(self) -> float:
        """The same, as a stamp."""
        return self.now_s

    def sleep(self, duration_s: float) -> None:
        """Moves the clock."""
        self.advance(duration_s)

    def advance(self, duration_s: float) -> None:
        """Moves the clock."""
        self.now_s += duration_s


@dataclass(slots=True)
class RecordedEvents:
    """A `Progress` that keeps what it was told, with `keep_plans` and `keep_level` beside it.

    Attributes:
        names: the events' names in order; requests are only counted.
        requests: requests that ended.
        outcomes: of finished trials.
        plans: as kept.
        levels: as kept, with their trial.
    """

    names: list[str] = field(default_factory=list)
    requests: int = 0
    outcomes: list[TrialOutcome] = field(default_factory=list)
    plans: tuple[LoadPlan, ...] = ()
    levels: list[tuple[Trial, LevelMeasurement]] = field(default_factory=list)

    def trial_started(self, trial: Trial) -> None:
        """Notes it."""
        self.names.append(f"started {trial.id}")

    def trial_ready(self, trial: Trial, effective: EffectiveSettings, launch_s: float) -> None:
        """Notes it."""
        del effective, launch_s
        self.names.append(f"ready {trial.id}")

    def level_started(self, trial: Trial, concurrency: int, num_requests: int) -> None:
        """Notes it."""
        del trial, num_requests
        self.names.append(f"level {concurrency}")

    def request_done(self) -> None:
        """Counts it."""
        self.requests += 1

    def level_done(self, trial: Trial, level: LevelMeasurement) -> None:
        """Notes it."""
        del trial
        self.names.append(f"measured {level.concurrency}")

    def trial_done(self, outcome: TrialOutcome) -> None:
        """Notes and keeps it."""
        self.names.append(f"done {outcome.trial.id}")
        self.outcomes.append(outcome)

    def keep_plans(self, plans: tuple[LoadPlan, ...]) -> None:
        """Keeps them."""
        self.plans = plans

    def keep_level(self, trial: Trial, level: LevelMeasurement) -> None:
        """Keeps it."""
        self.levels.append((trial, level))


def free_port() -> int:
    """A TCP port of the loopback address that nobody listens on now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
