"""What the model learns from: measured speeds, acceptance lengths and capacities.

First in the flow of this package: evidence → fitting → posterior → prediction.
"""

from dataclasses import dataclass, replace
from itertools import pairwise

from spectune.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Setting:
    """The part of a speculative setting that bears on speed.

    Attributes:
        num_steps: sequential draft forwards per verify step; 0 is off.
        topk: branches kept per draft step; 1 is a chain.
        num_draft_tokens: tokens verified per step, root included.

    >>> Setting.chain(3).num_draft_tokens, Setting.chain(0).is_off
    (4, True)
    """

    num_steps: int
    topk: int
    num_draft_tokens: int

    def __post_init__(self) -> None:
        """Checks the values; raises ConfigError."""
        if self.num_steps < 0 or self.topk < 1 or self.num_draft_tokens < 1:
            raise ConfigError(
                "setting: `num_steps >= 0, topk >= 1, num_draft_tokens >= 1` must hold, got "
                f"({self.num_steps}, {self.topk}, {self.num_draft_tokens})."
            )

    @property
    def is_off(self) -> bool:
        """Whether speculation is off."""
        return self.num_steps == 0

    @property
    def label(self) -> str:
        """A short name for tables."""
        if self.is_off:
            return "off"
        return str(self.num_steps) if self.topk == 1 else f"{self.num_steps} topk {self.topk}"

    @classmethod
    def chain(cls, num_steps: int) -> "Setting":
        """The topk-1 setting of `num_steps`."""
        return cls(num_steps=num_steps, topk=1, num_draft_tokens=num_steps + 1)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Cell:
    """A place on the surface: one setting under one load.

    Attributes:
        setting: speculative setting.
        concurrency: requests in flight at the client.
        workload: name of the text; "" when there is one only.
        lever: name of a change to the engine's capacity flags; "" for none.
    """

    setting: Setting
    concurrency: int
    workload: str = ""
    lever: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class SpeedRow:
    """One measured speed.

    Attributes:
        cell: where it was measured.
        output_tps: output tokens of all requests per second, positive.
        launch: tells repeated launches of one setting apart.
        log_sd: the measurement's own standard deviation, log units, on top of the usual noise.
    """

    cell: Cell
    output_tps: float
    launch: int = 0
    log_sd: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class AcceptanceRow:
    """One acceptance length: tokens per verify step, bonus included.

    Attributes:
        setting: setting it holds for.
        workload: text it holds for.
        acceptance_length: in [1, num_draft_tokens].
        log_sd: its standard deviation in log units.
    """

    setting: Setting
    workload: str
    acceptance_length: float
    log_sd: float = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityCurve:
    """Requests that run at once, by draft tokens, under one hypothesis about how the engine sizes its pools.

    Attributes:
        law: name of the hypothesis.
        weight: its probability before any speed was seen; need not add up to 1.
        running: (lever, num_draft_tokens, requests); under a lever, requests never grow with draft tokens.
    """

    law: str
    weight: float
    running: tuple[tuple[str, int, int], ...]

    def __post_init__(self) -> None:
        """Checks that capacity does not grow with draft tokens; raises ConfigError."""
        ordered = sorted(self.running)
        for (lever, _, more), (next_lever, tokens, fewer) in pairwise(ordered):
            if lever == next_lever and fewer > more:
                raise ConfigError(
                    f"capacity {self.law}: `requests never grow with draft tokens` must hold, "
                    f"got {fewer} after {more} at {tokens} draft tokens."
                )
        if self.weight <= 0:
            raise ConfigError(f"capacity {self.law}: `weight > 0` must hold, got {self.weight}.")

    def limit(self, cell: Cell) -> int:
        """Requests that run at once in a cell."""
        for lever, tokens, requests in self.running:
            if tokens == cell.setting.num_draft_tokens and lever == cell.lever:
                return requests
        raise ConfigError(
            f"capacity {self.law}: no value for {cell.setting.num_draft_tokens} draft tokens, "
            f"lever {cell.lever!r}."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All that is known of one deployment.

    Attributes:
        speeds: measured speeds; order does not matter.
        acceptance: measured acceptance lengths.
        capacity: hypotheses about capacity; empty when nothing limits the batch.
        expert_share: experts per token ÷ experts of a mixture-of-experts target; None when dense or unknown.
    """

    speeds: tuple[SpeedRow, ...]
    acceptance: tuple[AcceptanceRow, ...] = ()
    capacity: tuple[CapacityCurve, ...] = ()
    expert_share: float | None = None

    def with_speeds(self, speeds: tuple[SpeedRow, ...]) -> "Evidence":
        """The same with other measured speeds."""
        return replace(self, speeds=speeds)


OVERLOAD_SHARE = 0.8


def split_overload(speeds: tuple[SpeedRow, ...]) -> tuple[tuple[SpeedRow, ...], tuple[SpeedRow, ...]]:
    """Rows to fit and rows in overload: total speed under 80 % of what fewer requests reached.

    A closed loop's total speed rises with concurrency and is flat above capacity; where it falls, requests
    are evicted and computed again, which no smooth model describes.
    """

    def peak_before(row: SpeedRow) -> float:
        same = [
            other.output_tps
            for other in speeds
            if other.cell.setting == row.cell.setting
            and other.cell.workload == row.cell.workload
            and other.cell.concurrency < row.cell.concurrency
        ]
        return max(same, default=0.0)

    sound = tuple(row for row in speeds if row.output_tps >= OVERLOAD_SHARE * peak_before(row))
    return sound, tuple(row for row in speeds if row not in sound)
