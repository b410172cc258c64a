"""A server is lent for a study: commands before and after it, the journal, the way back and its proof."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from spectune.cli.interruption import time_limit, undisturbed
from spectune.cli.service_options import ServiceTerms, Window
from spectune.domain.study import StudyHistory
from spectune.domain.trial import Infeasible, TrialOutcome, UnfinishedTrial
from spectune.errors import ConfigError, LaunchError
from spectune.launch.give_back import Prove
from spectune.launch.journal import Journal, JournalHeader
from spectune.launch.launcher import Launcher

GIVEN_BACK_LOG = "given-back.log"
_COMMAND_S = 600.0
_RESERVE_SHARE, _LONGEST_RESERVE_S = 0.2, 120.0


class LentServer(Protocol):
    """A session on a unit or in a container's place."""

    def launcher(self, log_folder: Path) -> Launcher:
        """Starts servers there; their logs go to `log_folder`."""

    def give_back(self, prove: Prove) -> str:
        """Brings back what was there before; what the proof said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loan:
    """What is lent.

    Attributes:
        described: its name for the user.
        header: of the session's journal.
        begin: takes it, under the session's journal.
        prove: shows that it runs as before.
    """

    described: str
    header: JournalHeader
    begin: Callable[[Journal], LentServer]
    prove: Prove


@contextmanager
def lent(
    loan: Loan, terms: ServiceTerms, log_folder: Path, max_downtime_s: float | None
) -> Iterator[Launcher]:
    """A launcher in its place; whatever happens inside, it is given back and that is proven.

    Raises:
        ConfigError: the window is not open, before anything was done.
        LaunchError: a command of the user failed, or it could not be given back.
    """
    limit_s = downtime_limit_s(max_downtime_s, terms.window, time.localtime())
    run_here(terms.before_stop, "--before-stop")
    try:
        with _session(loan, log_folder) as launcher, time_limit(limit_s):
            yield launcher
    finally:
        with undisturbed():
            run_here(terms.after_restore, "--after-restore")


@contextmanager
def _session(loan: Loan, log_folder: Path) -> Iterator[Launcher]:
    session = loan.begin(Journal.begin(journal_folder(), loan.header))
    try:
        yield session.launcher(log_folder)
    finally:
        with undisturbed():
            told = session.give_back(loan.prove)
            sys.stderr.write(f"spectune: {loan.described} is given back: {told}\n")


def journal_folder() -> Path:
    """Where journals lie, whatever store a study uses."""
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(state) / "spectune" / "journals"


def run_here(words: tuple[str, ...], flag: str) -> None:
    """Runs a command of the user on this machine; raises LaunchError when it fails."""
    if not words:
        return
    try:
        ran = subprocess.run(
            words, check=False, stdin=subprocess.DEVNULL, stdout=sys.stderr, timeout=_COMMAND_S
        )
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise LaunchError(f"{flag}: `it can be run` must hold, got: {error}.") from error
    if ran.returncode != 0:
        raise LaunchError(f"{flag} {words[0]}: `exit status 0` must come, got {ran.returncode}.")


def downtime_left_s(max_s: float | None, resumed: StudyHistory | None) -> float | None:
    """What is left of a study's downtime; None without a limit.

    Args:
        max_s: the study's own limit, however often it was interrupted.
        resumed: what it has measured so far; None for a new study.

    Raises:
        ConfigError: nothing is left.
    """
    if max_s is None or resumed is None:
        return max_s
    left_s = max_s - downtime_spent_s((*resumed.outcomes, *resumed.unfinished))
    if left_s <= 0:
        raise ConfigError(
            f"--resume {resumed.study.id}: `some of its --max-downtime {max_s:g}s is left` must hold, "
            f"{max_s - left_s:.0f} s of launching and measuring are spent; see what it found with "
            f"`spectune show {resumed.study.id}`, or begin a new study."
        )
    return left_s


def downtime_spent_s(trials: Iterable[TrialOutcome | UnfinishedTrial]) -> float:
    """Seconds of launching and measuring."""
    return sum(
        (trial.launch_s or 0.0) + sum(level.wall_s for level in trial.levels)
        for trial in trials
        if not isinstance(trial, Infeasible)
    )


def downtime_limit_s(max_s: float | None, window: Window | None, now: time.struct_time) -> float | None:
    """Seconds until giving back begins, so that it ends in time; ConfigError outside the window."""
    limits = [] if max_s is None else [max_s]
    if window is not None:
        left_s = window.left_min(now.tm_hour * 60 + now.tm_min) * 60.0 - now.tm_sec
        if left_s <= 0:
            raise ConfigError(
                f"--window: `it is open now` must hold, it is {now.tm_hour:02d}:{now.tm_min:02d}; start "
                "spectune by cron or a systemd timer when it opens."
            )
        limits.append(left_s)
    if not limits:
        return None
    return min(limits) - min(_RESERVE_SHARE * min(limits), _LONGEST_RESERVE_S)
