"""Ways to choose launches and to recommend settings, behind one small protocol.

Every method sees the same noisy rows: one launch measures every level of the table. `recommend` gives a
setting per level; methods without a model recommend the best they measured.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from benchmarks.planner.load_tables import PublishedTable
from spectune.perfmodel.evidence import Cell, Evidence, Setting, SpeedRow
from spectune.perfmodel.posterior import Posterior, sample
from spectune.perfmodel.priors import Prior
from spectune.planning.goals import Choice, per_level
from spectune.planning.search import Finished, Launch, Situation, decide
from spectune.planning.stopping import Budget

Floats = NDArray[np.floating[Any]]
MEASURED_BONUS = 1.01
STARTUP_TRIALS = 2  # random launches before Optuna's samplers take over
MAX_ASKS = 8  # asks for something new before a random setting is taken


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a method knows: the table's frame, never its truth.

    Attributes:
        table: for settings, levels, and the acceptance and capacity that launched settings reveal.
        rows: noisy speeds so far.
        launched: settings launched, in order.
    """

    table: PublishedTable
    rows: tuple[SpeedRow, ...]
    launched: tuple[Setting, ...]

    @property
    def waiting(self) -> tuple[Setting, ...]:
        """Settings not launched yet."""
        return tuple(s for s in self.table.settings if s not in self.launched)

    def evidence(self) -> Evidence:
        """The rows with what the launches reveal beside speed."""
        launched = set(self.launched)
        return Evidence(
            speeds=self.rows,
            acceptance=self.table.acceptance_seen(launched),
            capacity=self.table.capacity_seen(launched),
            expert_share=self.table.expert_share,
        )


class Method(Protocol):
    """One way to tune."""

    name: str

    def propose(self, seen: Seen) -> Setting | None:
        """Next launch; None when it would stop."""

    def go_on(self, seen: Seen) -> Setting:
        """Next launch for one who does not stop."""

    def predict(self, seen: Seen, cells: Sequence[Cell]) -> tuple[Floats, Floats, Floats] | None:
        """Low, middle, high of tokens per second at 80 %, or None."""


def recommend(method: Method, seen: Seen, *, only_measured: bool = False) -> dict[int, Setting]:
    """Setting per level: measured cells as measured, as spectune's own answers have them.

    A predicted setting is taken only where it is more than 1 % better than every measured one.
    """
    settings = seen.launched if only_measured else seen.table.settings
    cells = [c for c in seen.table.truth if c.setting in settings]
    scores = {r.cell: r.output_tps * MEASURED_BONUS for r in seen.rows if r.cell.setting in settings}
    open_ = [c for c in cells if c not in scores]
    guess = method.predict(seen, open_) if open_ else None
    if guess:
        scores |= {c: float(m) for c, m in zip(open_, guess[1], strict=True)}
    found: dict[int, Cell] = {}
    for cell in sorted(scores):
        best = found.setdefault(cell.concurrency, cell)
        if scores[cell] > scores[best]:
            found[cell.concurrency] = cell
    return {level: cell.setting for level, cell in found.items()}


@dataclass(slots=True)
class Grid:
    """Ascending num_steps, all of them."""

    name: str = "grid"

    def propose(self, seen: Seen) -> Setting | None:
        return seen.waiting[0] if seen.waiting else None

    def go_on(self, seen: Seen) -> Setting:
        return seen.waiting[0]

    def predict(self, seen: Seen, cells: Sequence[Cell]) -> None:
        return None


@dataclass(slots=True)
class Random:
    """A shuffled grid."""

    seed: int
    name: str = "random"

    def propose(self, seen: Seen) -> Setting | None:
        order = np.random.default_rng(self.seed).permutation(len(seen.table.settings))
        return next((s for i in order if (s := seen.table.settings[int(i)]) in seen.waiting), None)

    def go_on(self, seen: Seen) -> Setting:
        return seen.waiting[0]

    def predict(self, seen: Seen, cells: Sequence[Cell]) -> None:
        return None


@dataclass(slots=True)
class Optuna:
    """Optuna's sampler on num_steps; the objective is the mean log speed over levels."""

    seed: int
    sampler: str
    name: str = ""

    def __post_init__(self) -> None:
        self.name = f"optuna {self.sampler}"

    def propose(self, seen: Seen) -> Setting | None:
        """Replays the launches into a fresh study, then asks until something new comes."""
        import optuna  # noqa: PLC0415  (an extra, and slow to load)

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        kind = optuna.samplers.GPSampler if self.sampler == "gp" else optuna.samplers.TPESampler
        study = optuna.create_study(
            direction="maximize", sampler=kind(seed=self.seed, n_startup_trials=STARTUP_TRIALS)
        )
        steps = {s.num_steps: s for s in seen.table.settings}
        space: dict[str, optuna.distributions.BaseDistribution] = {
            "num_steps": optuna.distributions.IntDistribution(min(steps), max(steps))
        }
        for setting in seen.launched:
            params = {"num_steps": setting.num_steps}
            value = _score(seen, setting)
            study.add_trial(optuna.trial.create_trial(params=params, distributions=space, value=value))
        for _ in range(MAX_ASKS):
            trial = study.ask(space)
            asked = steps.get(trial.params["num_steps"])
            if asked is not None and asked in seen.waiting:
                return asked
            study.tell(trial, 0.0 if asked is None else _score(seen, asked))
        rest = seen.waiting
        rng = np.random.default_rng(self.seed + len(seen.launched))
        return rest[int(rng.integers(len(rest)))] if rest else None

    def go_on(self, seen: Seen) -> Setting:
        return seen.waiting[0]

    def predict(self, seen: Seen, cells: Sequence[Cell]) -> None:
        return None


def _score(seen: Seen, setting: Setting) -> float:
    """Mean over levels of log speed relative to the best seen there."""
    best: dict[int, float] = {}
    for row in seen.rows:
        best[row.cell.concurrency] = max(best.get(row.cell.concurrency, 0.0), row.output_tps)
    logs = [math.log(r.output_tps / best[r.cell.concurrency]) for r in seen.rows if r.cell.setting == setting]
    return float(np.mean(logs)) if logs else 0.0


@dataclass(slots=True)
class Interpolation:
    """Log speed linear in 1 − 0.5^K, per level by least squares; measured cells stay as measured."""

    name: str = "interpolation"

    def propose(self, seen: Seen) -> Setting | None:
        """Both ends first, then the setting predicted best at most levels."""
        return _ends_then_best(self, seen)

    def go_on(self, seen: Seen) -> Setting:
        return seen.waiting[0]

    def predict(self, seen: Seen, cells: Sequence[Cell]) -> tuple[Floats, Floats, Floats] | None:
        values = {r.cell: r.output_tps for r in seen.rows}
        middle = np.array([values.get(c) or self._line(seen, c) for c in cells])
        return middle, middle, middle

    def _line(self, seen: Seen, cell: Cell) -> float:
        rows = [r for r in seen.rows if r.cell.concurrency == cell.concurrency]
        x = [1 - 0.5**r.cell.setting.num_steps for r in rows]
        y = [math.log(r.output_tps) for r in rows]
        if len(set(x)) < 2:
            return math.exp(np.mean(y)) if y else self._level_line(seen, cell)
        slope, start = np.polyfit(x, y, 1)
        return math.exp(start + slope * (1 - 0.5**cell.setting.num_steps))

    def _level_line(self, seen: Seen, cell: Cell) -> float:
        """A level nobody measured: log speed linear in log concurrency between its neighbours."""
        levels = sorted({r.cell.concurrency for r in seen.rows})
        at = [Cell(setting=cell.setting, concurrency=c) for c in levels]
        y = np.log(self.predict(seen, at)[1])  # type: ignore[index]
        return float(np.exp(np.interp(math.log(cell.concurrency), np.log(levels), y)))


@dataclass(slots=True)
class GaussianProcess:
    """Log speed over (log2 C, K) with a constant mean, squared-exponential lengths by maximum likelihood."""

    name: str = "generic gp"

    def propose(self, seen: Seen) -> Setting | None:
        return _ends_then_best(self, seen)

    def go_on(self, seen: Seen) -> Setting:
        return seen.waiting[0]

    def predict(self, seen: Seen, cells: Sequence[Cell]) -> tuple[Floats, Floats, Floats] | None:
        x, y = _inputs([r.cell for r in seen.rows]), np.log([r.output_tps for r in seen.rows])
        mean, scale = y.mean(), max(float(y.std()), 1e-3)
        theta = self._fit(x, (y - mean) / scale)
        factor = np.linalg.cholesky(_kernel(x, x, theta) + np.exp(2 * theta[3]) * np.eye(len(x)))
        cross = _kernel(_inputs(cells), x, theta)
        weights = np.linalg.solve(factor.T, np.linalg.solve(factor, (y - mean) / scale))
        middle = mean + scale * (cross @ weights)
        left = (
            np.exp(2 * theta[0]) + np.exp(2 * theta[3]) - (np.linalg.solve(factor, cross.T) ** 2).sum(axis=0)
        )
        half = 1.2816 * scale * np.sqrt(np.maximum(left, 1e-12))
        return np.exp(middle - half), np.exp(middle), np.exp(middle + half)

    def _fit(self, x: Floats, y: Floats) -> Floats:
        centre, spread = np.array([0.0, 1.0, 1.0, -3.0]), np.array([0.5, 0.7, 0.7, 1.0])

        def loss(theta: Floats) -> float:
            covariance = _kernel(x, x, theta) + np.exp(2 * theta[3]) * np.eye(len(x))
            factor = np.linalg.cholesky(covariance + 1e-9 * np.eye(len(x)))
            white = np.linalg.solve(factor, y)
            prior = 0.5 * (((theta - centre) / spread) ** 2).sum()
            return float(0.5 * (white**2).sum() + np.log(np.diag(factor)).sum() + prior)

        return np.asarray(minimize(loss, centre, method="L-BFGS-B", options={"maxiter": 30}).x)


def _inputs(cells: Sequence[Cell]) -> Floats:
    return np.array([[math.log2(c.concurrency), c.setting.num_steps] for c in cells], dtype=float)


def _kernel(a: Floats, b: Floats, theta: Floats) -> Floats:
    gap = (a[:, None, :] - b[None, :, :]) / np.exp(theta[1:3])
    return np.asarray(np.exp(2 * theta[0] - 0.5 * (gap**2).sum(axis=2)))


def _ends_then_best(method: Method, seen: Seen) -> Setting | None:
    speculating = [s for s in seen.table.settings if not s.is_off]
    for end in (speculating[-1], speculating[0]):
        if end not in seen.launched:
            return end
    best = recommend(method, seen)
    votes = [s for s in best.values() if s in seen.waiting]
    if votes:
        return max(sorted(set(votes)), key=votes.count)
    return seen.waiting[-1] if seen.waiting else None


@dataclass(slots=True)
class Ours:
    """spectune's model and planner, with a prior that never saw the table's source."""

    prior: Prior
    seed: int
    tolerance: float = 0.005
    name: str = "spectune"

    def propose(self, seen: Seen) -> Setting | None:
        """None too where only the baseline is missing: the search has its answer."""
        step = self._decide(seen, self.tolerance)
        return None if isinstance(step, Finished) or step.is_for_baseline else step.choice.setting

    def go_on(self, seen: Seen) -> Setting:
        step = self._decide(seen, -1.0)
        return seen.waiting[0] if isinstance(step, Finished) else step.choice.setting

    def _decide(self, seen: Seen, tolerance: float) -> Launch | Finished:
        launched = tuple(Choice(setting=s) for s in seen.launched)
        situation = Situation(
            evidence=seen.evidence(),
            choices=tuple(Choice(setting=s) for s in seen.table.settings),
            measured=frozenset(launched),
            launched=launched,
            goals=per_level(seen.table.levels),
            needs_off=tolerance >= 0,
        )
        rng = np.random.default_rng(self.seed)
        return decide(situation, prior=self.prior, budget=Budget(tolerance=tolerance), rng=rng)

    def predict(self, seen: Seen, cells: Sequence[Cell]) -> tuple[Floats, Floats, Floats] | None:
        return self.posterior(seen, cells).quantiles(0.8)

    def posterior(self, seen: Seen, cells: Sequence[Cell]) -> Posterior:
        """Draws at any cells."""
        return sample(seen.evidence(), tuple(cells), prior=self.prior, rng=np.random.default_rng(self.seed))
