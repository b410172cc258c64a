"""What a running study tells whoever watches it. The command line draws a bar; tests write a list."""

from typing import Protocol

from spectune.domain.measurement import LevelMeasurement
from spectune.domain.trial import EffectiveSettings, Trial, TrialOutcome


class Progress(Protocol):
    """Receives events in the order they happen; must return quickly and never raise."""

    def trial_started(self, trial: Trial) -> None:
        """A server is being launched."""

    def trial_ready(self, trial: Trial, effective: EffectiveSettings, launch_s: float) -> None:
        """It gave a real generation."""

    def level_started(self, trial: Trial, concurrency: int, num_requests: int) -> None:
        """Load begins at one level, warm-up included."""

    def request_done(self) -> None:
        """One request of the level ended."""

    def level_done(self, trial: Trial, level: LevelMeasurement) -> None:
        """A level was measured (and may be measured again if it was disturbed)."""

    def trial_done(self, outcome: TrialOutcome) -> None:
        """The server is stopped and the outcome known."""
