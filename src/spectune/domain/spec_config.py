"""A speculative-decoding setting: what a trial asks an engine to run."""

from dataclasses import dataclass

from spectune.errors import ConfigError

OFF_METHOD = "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecConfig:
    """One setting, in SGLang's meaning of the words.

    Attributes:
        method: "off", "eagle", "draft_model", "ngram", or an engine's own name.
        num_steps: sequential draft forwards per verify step; 0 is off.
        topk: branches kept per draft step; 1 is a chain.
        num_draft_tokens: tokens the target verifies per step, root included; 1 is off.

    >>> SpecConfig.chain("eagle", 3)
    SpecConfig(method='eagle', num_steps=3, topk=1, num_draft_tokens=4)
    >>> OFF.label, SpecConfig.chain("ngram", 4).label
    ('off', 'ngram 4')
    """

    method: str
    num_steps: int
    topk: int
    num_draft_tokens: int

    def __post_init__(self) -> None:
        """Checks the tuple's rules; raises ConfigError."""
        if self.num_steps < 0:
            raise ConfigError(f"setting: `num_steps >= 0` must hold, got {self.num_steps}.")
        if self.topk < 1:
            raise ConfigError(f"setting: `topk >= 1` must hold, got {self.topk}.")
        if (self.method == OFF_METHOD) != (self.num_steps == 0):
            raise ConfigError(
                "setting: `method is off exactly when num_steps is 0` must hold, "
                f"got method={self.method}, num_steps={self.num_steps}."
            )
        if self.topk == 1 and self.num_draft_tokens != self.num_steps + 1:
            raise ConfigError(
                "setting: `num_draft_tokens = num_steps + 1 when topk is 1` must hold, got "
                f"num_draft_tokens={self.num_draft_tokens}, num_steps={self.num_steps}; leave it out."
            )
        if self.topk > 1 and not self.num_steps < self.num_draft_tokens <= self.max_tree_tokens:
            raise ConfigError(
                f"setting: `num_steps < num_draft_tokens <= {self.max_tree_tokens}` must hold for "
                f"num_steps={self.num_steps}, topk={self.topk}, got {self.num_draft_tokens}."
            )

    @property
    def max_tree_tokens(self) -> int:
        """The most tokens a draft tree of this shape has: root + topk + (num_steps − 1)·topk²."""
        return 1 + self.topk + max(self.num_steps - 1, 0) * self.topk * self.topk

    @property
    def is_off(self) -> bool:
        """Whether speculation is off."""
        return self.num_steps == 0

    @property
    def label(self) -> str:
        """A short name for tables: 'off', 'eagle 3', 'eagle 3 topk 2 draft 6'."""
        if self.is_off:
            return "off"
        if self.topk == 1:
            return f"{self.method} {self.num_steps}"
        return f"{self.method} {self.num_steps} topk {self.topk} draft {self.num_draft_tokens}"

    @classmethod
    def chain(cls, method: str, num_steps: int) -> "SpecConfig":
        """The topk-1 setting of `num_steps`; `off` when it is 0, whatever the method."""
        if num_steps == 0:
            return OFF
        return cls(method=method, num_steps=num_steps, topk=1, num_draft_tokens=num_steps + 1)


OFF = SpecConfig(method=OFF_METHOD, num_steps=0, topk=1, num_draft_tokens=1)
