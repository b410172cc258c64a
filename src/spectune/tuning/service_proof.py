"""What a kept server ran before the first change, and the proof that it runs the same again."""

from spectune.clock import Clock
from spectune.domain.command import Command
from spectune.domain.schedule import Schedule
from spectune.domain.spec_config import SpecConfig
from spectune.domain.trial import EffectiveSettings
from spectune.engines.adapter import EngineAdapter
from spectune.errors import EngineNotReady, LaunchError
from spectune.launch.launcher import RunningServer
from spectune.launch.readiness import wait_until_ready
from spectune.storage.codec import from_json, to_json
from spectune.tuning.bench import generation_probe, read_effective

_SAME_TOKENS_SHARE = 0.01
"""KV tokens are what memory happens to be left at a start: within 1% they are called the same."""


def look(adapter: EngineAdapter, command: Command, server: RunningServer, clock: Clock) -> EffectiveSettings:
    """What the server of `command` runs now, after one real generation.

    Raises:
        LaunchError: it gave none within the dialect's deadline.
        ProtocolError: its answers cannot be read.
    """
    wait_until_ready(server, generation_probe(adapter), deadline_s=adapter.ready_deadline_s, clock=clock)
    return read_effective(adapter, command, server)


def write_down(effective: EffectiveSettings) -> str:
    """For the journal."""
    return to_json(effective)


def read_back(text: str) -> EffectiveSettings:
    """From the journal; raises StoreError."""
    return from_json(EffectiveSettings, text)


def prove_same(
    adapter: EngineAdapter, command: Command, server: RunningServer, clock: Clock, before: str
) -> str:
    """The words for the user; raises LaunchError when something differs from `before`."""
    then = read_back(before)
    now = look(adapter, command, server, clock)
    differences = list(_differences(then, now))
    if differences:
        raise LaunchError(f"`the server runs as before` must hold, but {'; '.join(differences)}.")
    return f"a real generation, and as before: {describe(now)}"


def prove_applied(
    adapter: EngineAdapter,
    command: Command,
    server: RunningServer,
    clock: Clock,
    wanted: SpecConfig,
    *,
    schedule: Schedule | None = None,
) -> str:
    """The words for the user; raises LaunchError when it does not run `wanted`, and this schedule or none."""
    now = look(adapter, command, server, clock)
    if now.config != wanted:
        raise EngineNotReady(f"`it runs {wanted.label}` must hold, it runs {now.config.label}.")
    if now.schedule != schedule:
        asked = "no schedule" if schedule is None else f"schedule {schedule.label}"
        said = adapter.refusal(server.log_text())
        raise EngineNotReady(
            f"`it runs {asked}` must hold, it runs {_schedule(now)}."
            + (f" Its log: {said[:300]}" if said else "")
        )
    return f"a real generation, and in force: {describe(now)}"


def describe(effective: EffectiveSettings) -> str:
    """One line."""
    parts = [effective.config.label]
    if effective.schedule is not None:
        parts.append(f"schedule {effective.schedule.label}")
    if effective.max_running_requests is not None:
        parts.append(f"{effective.max_running_requests} running requests at most")
    if effective.max_total_num_tokens is not None:
        parts.append(f"{effective.max_total_num_tokens} KV tokens")
    return ", ".join(parts)


def _schedule(effective: EffectiveSettings) -> str:
    return "none" if effective.schedule is None else effective.schedule.label


def _differences(then: EffectiveSettings, now: EffectiveSettings) -> list[str]:
    found = [
        f"{name} was {old}, is {new}"
        for name, old, new in (
            ("setting", then.config.label, now.config.label),
            ("schedule", _schedule(then), _schedule(now)),
            ("max running requests", then.max_running_requests, now.max_running_requests),
            ("engine version", then.engine_version, now.engine_version),
            ("model", then.model, now.model),
        )
        if old != new
    ]
    reported = now.covariates()
    found += [
        f"{name} was {old}, is {reported.get(name, 'not told')}"
        for name, old in then.covariates().items()
        if reported.get(name) != old
    ]
    old_tokens, new_tokens = then.max_total_num_tokens or 0, now.max_total_num_tokens or 0
    if abs(old_tokens - new_tokens) > _SAME_TOKENS_SHARE * old_tokens:
        found.append(f"KV tokens were {old_tokens}, are {new_tokens}")
    return found
