"""A server that somebody else runs: looked at first, borrowed under a lease, given back and proven."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from spectune.cli.interruption import time_limit, undisturbed
from spectune.cli.service_options import ServiceTerms, UnitPlace, Window, service_at
from spectune.cli.wiring import PreparedStudy, recognise
from spectune.clock import SystemClock
from spectune.domain.command import Command
from spectune.domain.study import StudyHistory
from spectune.domain.trial import Infeasible, TrialOutcome, UnfinishedTrial
from spectune.engines.adapter import EngineAdapter
from spectune.errors import ConfigError, LaunchError
from spectune.launch.docker_service import DockerService
from spectune.launch.journal import Journal, JournalHeader, Kind
from spectune.launch.launcher import Launcher, RunningServer
from spectune.launch.service_session import SessionTerms, new_header, open_session
from spectune.launch.systemd_launcher import SystemdServer, UnitLog, secrets_of
from spectune.launch.systemd_service import SystemdService
from spectune.launch.systemd_unit import Unit
from spectune.report import numbers
from spectune.report.plan_document import StudyPlan
from spectune.tuning.bench import ask
from spectune.tuning.live_traffic import busiest
from spectune.tuning.service_proof import describe, look, prove_same, write_down

_COMMAND_S = 600.0
_RESERVE_SHARE, _LONGEST_RESERVE_S = 0.2, 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptServer:
    """A unit as it was found.

    Attributes:
        terms: what may be done with it.
        place: which it is.
        service: the unit on its host.
        unit: its definition.
        adapter: its engine's dialect.
        before: what it runs, as written down; "" when it does not run.
    """

    terms: ServiceTerms
    place: UnitPlace
    service: SystemdService
    unit: Unit
    adapter: EngineAdapter
    before: str

    @property
    def command(self) -> Command:
        """What it runs."""
        return self.unit.command

    def fit(self, prepared: PreparedStudy) -> PreparedStudy:
        """The study on this unit: its own command, with what every arm needs set equally."""
        study = replace(prepared.study, command=self.command)
        return replace(prepared, study=study, command=replace(self.command, argv=prepared.command.argv))

    def notes(self, plan: StudyPlan) -> tuple[str, ...]:
        """What the user should know before it begins."""
        stopped = self.service.active_dependents(self.unit)
        drop_ins = ", ".join(self.unit.drop_ins) or "none"
        notes = [f"unit {self.service.described}: {self.unit.active_state}, drop-ins: {drop_ins}"]
        notes.append(
            f"expected downtime for its users: {duration_text(plan.expected_s)}, with up to "
            f"{plan.max_launches} restarts and one more to give it back; settings are tried through a "
            "runtime drop-in"
        )
        if self.unit.environment:
            notes.append(f"environment (values masked): {self.unit.described_environment}")
        if stopped:
            notes.append(f"stopped and started with it: {', '.join(stopped)}")
        return tuple(notes)

    def check_quiet(self) -> None:
        """Raises ConfigError when it serves somebody, or when that cannot be told."""
        if self.before and not self.terms.allows_live:
            server = server_of(self.service, self.adapter, Path(os.devnull))
            check_serves_nobody(self.service, server, window_s=self.terms.quiet_s)

    def session_terms(self, kind: Kind, study: str) -> SessionTerms:
        """What the journal notes of this server for a session of this kind."""
        return session_terms_of(self.terms, self.adapter, self.before, kind, study)

    @contextmanager
    def borrowed(self, study_id: str, log_folder: Path, max_downtime_s: float | None) -> Iterator[Launcher]:
        """A launcher on the unit; whatever happens inside, the unit is given back and that is proven."""
        limit_s = downtime_limit_s(max_downtime_s, self.terms.window, time.localtime())
        terms = self.terms
        header = new_header(
            self.service,
            self.unit,
            self.session_terms("tune", study_id),
        )
        run_here(terms.before_stop, "--before-stop")
        try:
            with self._session(header, log_folder) as launcher, time_limit(limit_s):
                yield launcher
        finally:
            with undisturbed():
                run_here(terms.after_restore, "--after-restore")

    @contextmanager
    def _session(self, header: JournalHeader, log_folder: Path) -> Iterator[Launcher]:
        journal = Journal.begin(journal_folder(), header)
        session = open_session(self.service, self.unit, journal, SystemClock())
        try:
            yield session.launcher(log_folder)
        finally:
            with undisturbed():
                log = log_folder / "given-back.log"
                told = session.give_back(proof_of(self.service, self.adapter, self.before, log))
                sys.stderr.write(f"spectune: {self.service.described} is given back: {told}\n")


@contextmanager
def looked_at(terms: ServiceTerms, log: Path) -> Iterator[KeptServer]:
    """The unit as it is, its host in reach; its log goes to `log`. Raises ConfigError or LaunchError."""
    place = terms.place
    assert isinstance(place, UnitPlace), "containers are looked at elsewhere"
    service = service_at(place)
    try:
        service.facts()
        unit = service.unit()
        adapter = recognise(unit.command)
        before = ""
        if unit.active_state == "active":
            server = server_of(service, adapter, log)
            if not terms.allows_live:
                check_serves_nobody(service, server, window_s=terms.quiet_s)
            before = write_down(look(adapter, unit.command, server, SystemClock()))
        yield KeptServer(terms=terms, place=place, service=service, unit=unit, adapter=adapter, before=before)
    finally:
        service.host.close()


def session_terms_of(
    terms: ServiceTerms, adapter: EngineAdapter, before: str, kind: Kind, study: str
) -> SessionTerms:
    """What the journal notes of a server that runs `before`."""
    return SessionTerms(
        kind=kind,
        study=study,
        ssh=terms.place.ssh,
        use_sudo=terms.place.use_sudo,
        engine=adapter.name,
        before=before,
        orphan_timeout_s=terms.orphan_timeout_s,
        after_restore=terms.after_restore,
    )


def check_serves_nobody(
    service: SystemdService | DockerService, server: RunningServer, *, window_s: float
) -> None:
    """Raises ConfigError when it has requests during the window, or when that cannot be told."""
    most = busiest(partial(ask, server), SystemClock(), window_s=window_s)
    if most is None:
        raise ConfigError(
            f"{service.described}: `its metrics say whether it serves somebody` must hold, they do not; give "
            "--allow-live if nobody needs it now."
        )
    if most:
        raise ConfigError(
            f"{service.described}: `it serves nobody` must hold, it has {most} requests; drain it first, or "
            "give --allow-live."
        )


def server_of(service: SystemdService, adapter: EngineAdapter, log: Path) -> SystemdServer:
    """The unit's server as it runs now, to be looked at only."""
    command = service.unit().command
    endpoint = service.host.reach(adapter.endpoint(command))
    return SystemdServer(service, endpoint, UnitLog(service, log, (), secrets_of(command)), SystemClock())


def proof_of(service: SystemdService, adapter: EngineAdapter, before: str, log: Path) -> Callable[[], str]:
    """Shows that the server runs as before."""

    def prove() -> str:
        if not before:
            return "not running, as before"
        command = service.unit().command
        return prove_same(adapter, command, server_of(service, adapter, log), SystemClock(), before)

    return prove


def running_proof(
    service: SystemdService, adapter: EngineAdapter, before: str, log: Path
) -> Callable[[], str]:
    """Shows that the server runs, whatever it runs."""

    def prove() -> str:
        if not before:
            return "not running, as before"
        now = look(adapter, service.unit().command, server_of(service, adapter, log), SystemClock())
        return f"a real generation, and in force: {describe(now)}"

    return prove


def journal_folder() -> Path:
    """Where journals lie, whatever store a study uses."""
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(state) / "spectune" / "journals"


def confirm(question: str, *, is_confirmed: bool) -> None:
    """Asks on the terminal; raises ConfigError when the answer is no or nobody can be asked."""
    if is_confirmed:
        return
    if not sys.stdin.isatty():
        raise ConfigError(f"{question} `--yes` must be given where nobody can be asked; nothing was changed.")
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise ConfigError("`a yes` must be given; nothing was changed.")


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


def duration_text(seconds: float | None) -> str:
    """How long a study may take, in words."""
    return "without a limit" if seconds is None else f"about {numbers.duration(seconds)}"
