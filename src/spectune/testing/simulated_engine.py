"""An engine of known truth: step time and acceptance as formulas. The simulated server runs on it.

symbol            meaning                                            unit
batch             sequences in one engine step                       1
k                 draft forwards per step (num_steps)                1
p                 chance that a draft token is accepted              1
step_s            fixed + row·batch·(k + 1) + draft·k                s
tokens_per_step   1 + p + p² + … + p^k                               1
"""

from dataclasses import dataclass

from spectune.domain.spec_config import SpecConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedEngine:
    """Costs and acceptance of a chain-drafting engine (topk 1).

    Attributes:
        fixed_s: seconds of any step.
        row_s: seconds per verified token.
        draft_s: seconds per draft forward.
        prefill_s: seconds per admitted prompt.
        acceptance: chance that a draft token is accepted, given that those before it were.
        max_running_requests: sequences run at once with speculation off.
        capacity_per_step: sequences lost per draft forward.
    """

    fixed_s: float = 2.0e-3
    row_s: float = 0.05e-3
    draft_s: float = 0.2e-3
    prefill_s: float = 0.5e-3
    acceptance: float = 0.75
    max_running_requests: int = 48
    capacity_per_step: int = 1

    def capacity(self, config: SpecConfig) -> int:
        """Sequences run at once under `config`."""
        return max(self.max_running_requests - self.capacity_per_step * config.num_steps, 1)

    def step_s(self, config: SpecConfig, batch: int) -> float:
        """Seconds of one step over `batch` sequences."""
        k = config.num_steps
        return self.fixed_s + self.row_s * batch * (k + 1) + self.draft_s * k

    def tokens_per_step(self, config: SpecConfig) -> float:
        """Expected tokens one sequence gains in a step.

        >>> SimulatedEngine(acceptance=0.5).tokens_per_step(SpecConfig.chain("eagle", 2))
        1.75
        """
        return sum(self.acceptance**position for position in range(config.num_steps + 1))

    def output_tps(self, config: SpecConfig, concurrency: int) -> float:
        """Decoding speed with `concurrency` requests in flight, prompts left aside."""
        batch = min(concurrency, self.capacity(config))
        return batch * self.tokens_per_step(config) / self.step_s(config, batch)

    def best_num_steps(self, method: str, concurrency: int, max_steps: int = 8) -> int:
        """The fastest chain length at this concurrency; 0 is off."""
        return max(
            range(max_steps + 1), key=lambda k: self.output_tps(SpecConfig.chain(method, k), concurrency)
        )
