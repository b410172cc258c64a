"""Faults a simulated server can be told to have: `NAME[:COUNT][@NUM_STEPS]`."""

from dataclasses import dataclass
from typing import Literal, get_args

from spectune.errors import ConfigError

FaultName = Literal[
    "die-at-start",  # exit status 3 with a traceback, before it listens
    "bad-argument",  # exit status 2 with one line on stderr
    "out-of-memory",  # exit status 1 with an out-of-memory line
    "never-ready",  # answers 503 to every generation
    "hang-at-start",  # listens, but no generation ever answers
    "die-after",  # exit status 7 in the midst of generation number COUNT
    "out-of-memory-after",  # exit status 1 with an out-of-memory line in the midst of generation COUNT
    "hang-after",  # no token comes any more from generation number COUNT on; /health says 200
    "errors-after",  # 500 to every generation from number COUNT on
    "garbage-after",  # unreadable streams from generation number COUNT on
    "garbage-http",  # what it answers is not HTTP
    "garbage-info",  # /server_info is not JSON
    "garbage-metrics",  # /metrics is not Prometheus text
    "wrong-settings",  # runs and reports one step less than asked
    "counters-still",  # speculation's counters never move
    "refuse-continuous-usage",  # 400 to stream_options.continuous_usage_stats
    "no-continuous-usage",  # ignores it
    "ignore-sigterm",  # must be killed
    "leave-child",  # starts a process of its own that ignores SIGTERM
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault.

    Attributes:
        name: what goes wrong.
        count: generations that go well before it.
        at_num_steps: only when the server runs this many steps; None for always.

    >>> Fault.parse("die-after:5@3")
    Fault(name='die-after', count=5, at_num_steps=3)
    """

    name: FaultName
    count: int = 0
    at_num_steps: int | None = None

    @classmethod
    def parse(cls, text: str) -> "Fault":
        """The fault written as `NAME[:COUNT][@NUM_STEPS]`; raises ConfigError."""
        head, _, steps = text.partition("@")
        name, _, count = head.partition(":")
        for known in get_args(FaultName):
            if name == known and count.isdigit() | (not count) and steps.isdigit() | (not steps):
                return cls(name=known, count=int(count or 0), at_num_steps=int(steps) if steps else None)
        raise ConfigError(
            f"--sim-fault: `NAME[:COUNT][@NUM_STEPS]` must hold, got {text!r}; "
            f"names: {', '.join(get_args(FaultName))}."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """The faults in force at one setting."""

    active: tuple[Fault, ...] = ()

    @classmethod
    def at(cls, faults: tuple[Fault, ...], num_steps: int) -> "Faults":
        """Those of `faults` that apply when the server runs `num_steps`."""
        return cls(active=tuple(f for f in faults if f.at_num_steps in (None, num_steps)))

    def has(self, name: FaultName, served: int | None = None) -> bool:
        """Whether the fault is in force, after `served` generations where it has a count."""
        return any(f.name == name and (served is None or served >= f.count) for f in self.active)
