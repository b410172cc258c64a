"""The question of a study, and the study itself."""

from dataclasses import dataclass
from typing import Literal

from spectune.domain.command import Command
from spectune.domain.environment import Environment
from spectune.domain.trial import TrialOutcome, UnfinishedTrial
from spectune.domain.workload import LoadPlan, WorkloadSpec
from spectune.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSpace:
    """Settings that may be tried.

    Attributes:
        method: speculation method of every setting but off.
        num_steps: ascending, each >= 0; 0 is off.
        topk: branches per step; 1 is a chain.
        num_draft_tokens: for topk > 1, tokens verified per step; None takes the engine's rule.
        is_exhaustive: whether every value must be tried, wherever the optimum lies.
        more_methods: further methods, searched after the first one.
        probe_topk: branches of the one tree that is tried beside the best chain; None for none.
        levers: capacity flags tried beside the command's own (""), such as "--max-running-requests 16".
    """

    method: str
    num_steps: tuple[int, ...]
    topk: int = 1
    num_draft_tokens: int | None = None
    is_exhaustive: bool = False
    more_methods: tuple[str, ...] = ()
    probe_topk: int | None = None
    levers: tuple[str, ...] = ("",)

    def __post_init__(self) -> None:
        """Checks the space; raises ConfigError."""
        if not self.num_steps:
            raise ConfigError("space: `num_steps` must name at least one value.")
        if list(self.num_steps) != sorted(set(self.num_steps)) or self.num_steps[0] < 0:
            raise ConfigError(f"space: `num_steps` must ascend from 0 or more, got {self.num_steps}.")
        if len({self.method, *self.more_methods}) != 1 + len(self.more_methods):
            raise ConfigError(
                f"space: `no method twice` must hold, got {self.method} and {self.more_methods}."
            )

        if self.probe_topk is not None and self.probe_topk < 2:
            raise ConfigError(f"space: `probe_topk >= 2` must hold, got {self.probe_topk}.")
        if len(set(self.levers)) != len(self.levers) or "" not in self.levers:
            raise ConfigError(f'space: `levers without repeats, "" among them` must hold, got {self.levers}.')

    @property
    def num_settings(self) -> int:
        """Settings of all methods, off once."""
        drafting = sum(steps > 0 for steps in self.num_steps)
        return len(self.num_steps) + drafting * len(self.more_methods)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRule:
    """How settings are chosen, and when to stop.

    Attributes:
        kind: "grid" tries num_steps in order, "model" launches where a performance model sees most to gain.
        tolerance: share of speed that may be lost against the best (model only).
        max_launches: launches at most (model only); None for no limit.
        max_downtime_s: seconds of launching and measuring at most (model only); None for no limit.
    """

    kind: Literal["grid", "model"] = "grid"
    tolerance: float = 0.005
    max_launches: int | None = None
    max_downtime_s: float | None = None

    def __post_init__(self) -> None:
        """Checks the limits; raises ConfigError."""
        if not 0 < self.tolerance < 1:
            raise ConfigError(f"search: `0 < tolerance < 1` must hold, got {self.tolerance}.")
        if self.max_launches is not None and self.max_launches < 1:
            raise ConfigError(f"search: `max_launches >= 1` must hold, got {self.max_launches}.")


GRID_SEARCH = SearchRule()


_REFINING_PER_ROUND = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofRule:
    """What is measured once the search has stopped, before anything is called recommended.

    Attributes:
        rounds: fresh launches of each finalist on fresh prompts that were asked for; 0: the search's
            measurements stand alone, unless there is a schedule (`launched_rounds`).
        refine: levels that a launch measures beside its own, within wide changes of the best setting;
            launches for nothing else follow while the budget allows them.
        has_schedule: whether a schedule of steps by batch size is started and measured.
        has_equal_limits: whether off is measured at the limits speculation leaves, where they bind.
        is_lossless: whether the outputs are checked against off's.
        mix: (concurrency, share of time) the recommendation is for; empty: every level counts alike.
        slo: latency limits as (name, seconds), such as ("ttft_p99", 0.5); empty for none.
    """

    rounds: int = 0
    refine: int = 0
    has_schedule: bool = False
    has_equal_limits: bool = False
    is_lossless: bool = False
    mix: tuple[tuple[int, float], ...] = ()
    slo: tuple[tuple[str, float], ...] = ()

    @property
    def launched_rounds(self) -> int:
        """Rounds asked for; a schedule needs one, so that there is something to set it against."""
        return max(self.rounds, 1) if self.has_schedule else self.rounds

    @property
    def most_refining(self) -> int:
        """Launches at most that are made only for levels within wide changes."""
        return _REFINING_PER_ROUND * self.launched_rounds if self.refine else 0


NO_PROOF = ProofRule()
NOT_LAUNCHED_AGAIN = "was not launched again"
NOT_LAUNCHED_BETWEEN = "was not launched for the levels in between"


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """A question put to one server command.

    Attributes:
        id: short name, unique in the store.
        created_unix_s: when it was begun.
        engine: dialect name.
        command: the serve command, word for word, before any setting is applied.
        space: settings that may be tried.
        workload: what is sent.
        concurrency: levels, ascending.
        budget_s: measuring seconds for the whole study; None for no limit.
        environment: what it runs on.
        search: how settings are chosen.
        proof: what is measured before a setting is recommended.
        service: the running service that was borrowed for it, such as "unit llm.service on gpu1"; "" where
            every server was spectune's own process and nothing was stopped.
    """

    id: str
    created_unix_s: float
    engine: str
    command: Command
    space: SearchSpace
    workload: WorkloadSpec
    concurrency: tuple[int, ...]
    budget_s: float | None
    environment: Environment
    search: SearchRule = GRID_SEARCH
    proof: ProofRule = NO_PROOF
    service: str = ""

    def __post_init__(self) -> None:
        """Checks the levels; raises ConfigError."""
        if not self.concurrency or list(self.concurrency) != sorted(set(self.concurrency)):
            raise ConfigError(f"study: `concurrency` must ascend and not repeat, got {self.concurrency}.")
        if self.concurrency[0] < 1:
            raise ConfigError(f"study: `concurrency >= 1` must hold, got {self.concurrency[0]}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyHistory:
    """Everything raw that is known of a study; all figures are computed from it.

    Attributes:
        study: the question.
        plans: the load plans, one per level, equal for every setting; empty before they were sized.
        outcomes: finished trials in order of launch.
        finished: why the planner stopped, or "" when the study was interrupted.
        wall_s: seconds spent on it so far, over all sittings.
        launches: servers launched so far, those of interrupted trials included.
        unfinished: trials cut off by an interruption and not yet taken up again.
    """

    study: Study
    plans: tuple[LoadPlan, ...]
    outcomes: tuple[TrialOutcome, ...]
    finished: str
    wall_s: float
    launches: int = 0
    unfinished: tuple[UnfinishedTrial, ...] = ()

    @property
    def was_short_of_refining(self) -> bool:
        """Whether a limit kept the planner from launching for levels in between, by what it said."""
        return any(said in self.finished for said in (NOT_LAUNCHED_AGAIN, NOT_LAUNCHED_BETWEEN))
