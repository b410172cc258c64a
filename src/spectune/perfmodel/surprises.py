"""Cells that do not fit the rest of their own surface: contaminated, or another regime of the server.

Each cell is predicted from all others, with the formula taken as linear about its best fit.

Symbols
    m, D    mean and covariance of the parameters' prior                       [parameters], [parameters]²
    J       derivatives of log speed and log acceptance length at theta        [rows, parameters]
    N       covariance of effects and noise                                    [rows, rows]
    r       y − f(theta) + J·(theta − m): what the prior's mean leaves over    [rows]
    S       J·D·Jᵀ + N
    gap     [S⁻¹r]_i ÷ [S⁻¹]_ii: log of measured ÷ predicted without row i
    z       gap ÷ its standard deviation, 1 ÷ √[S⁻¹]_ii

Source: leave-one-out by partitioned inverse, Rasmussen & Williams (2006), equations 5.10 to 5.12. The most
surprising cell is taken out before the next one is judged, as it spoils what is expected of its neighbours.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import block_diag

from spectune.perfmodel import acceptance_model
from spectune.perfmodel.arrays import Floats
from spectune.perfmodel.evidence import Evidence, SpeedRow
from spectune.perfmodel.fitting import Problem, best, layout_of, problem_of
from spectune.perfmodel.posterior import hypotheses_of
from spectune.perfmodel.priors import Prior

MIN_Z = 4.0  # 3 of 609 cells of published tables lie beyond: no CUDA graph for the batch, twice near overload
MIN_ROWS = 6  # fewer do not tell which of them is odd
MAX_FOUND = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Surprise:
    """A measured cell that the others do not expect.

    Attributes:
        row: as measured.
        expected_tps: tokens per second that all other cells make likeliest.
        deviations: standard deviations between the two, in log speed; negative where it is too slow.
    """

    row: SpeedRow
    expected_tps: float
    deviations: float

    @property
    def words(self) -> str:
        """What is odd, and what to do; without the cell's name."""
        return (
            f"{self.row.output_tps:.4g} tok/s, where the other cells expect about {self.expected_tps:.4g} "
            f"({abs(self.deviations):.1f} standard deviations); measure it again: something disturbed it, or "
            "the server works otherwise there (evicted requests, a batch beyond its captured graphs)"
        )


def surprises(evidence: Evidence, *, prior: Prior) -> tuple[Surprise, ...]:
    """Cells beyond MIN_Z standard deviations, the most surprising first; none where rows are few."""
    found: list[Surprise] = []
    while len(evidence.speeds) >= MIN_ROWS and len(found) < MAX_FOUND:
        worst = max(_judged(evidence, prior), key=lambda one: abs(one.deviations))
        if abs(worst.deviations) < MIN_Z:
            break
        found.append(worst)
        evidence = evidence.with_speeds(tuple(row for row in evidence.speeds if row != worst.row))
    return tuple(found)


def surprise_warnings(found: tuple[Surprise, ...]) -> tuple[str, ...]:
    """One sentence for each, with the cell's name."""
    return tuple(
        f"surprising: num_steps {one.row.cell.setting.label}, concurrency {one.row.cell.concurrency}"
        f"{f' ({one.row.cell.workload})' if one.row.cell.workload else ''}: {one.words}"
        for one in found
    )


def _judged(evidence: Evidence, prior: Prior) -> list[Surprise]:
    layout = layout_of(evidence)
    likeliest = max(hypotheses_of(evidence, layout, prior), key=lambda h: h.probability)
    problem = problem_of(evidence, layout, likeliest.prior, (likeliest.capacity,))
    theta = best(problem)
    left, jacobian, noise = _linear(problem, theta)
    rest = left + jacobian @ (theta[0] - problem.prior_mean)
    inverse = np.linalg.inv(jacobian @ np.diag(problem.prior_sd**2) @ jacobian.T + noise)
    precision = np.diag(inverse)
    gaps = inverse @ rest / precision
    return [
        Surprise(
            row=row,
            expected_tps=row.output_tps * float(np.exp(-gap)),
            deviations=float(gap * np.sqrt(sharp)),
        )
        for row, gap, sharp in zip(sorted(evidence.speeds), gaps, precision, strict=False)
    ]


def _linear(problem: Problem, theta: Floats) -> tuple[Floats, Floats, Floats]:
    """Residuals [rows], their derivatives [rows, parameters] and N; speeds first, then acceptance lengths."""
    f, gradient = problem.surface.log_speed_gradient(theta)
    factor = np.linalg.inv(problem.whitener)
    steps, offsets, lengths, sd = problem.acceptance
    if not len(steps):
        return problem.y - f[0], gradient[0], factor @ factor.T
    length, by_odds, by_decay = acceptance_model.curve_gradient(
        theta[:, offsets], theta[:, offsets + 1], steps
    )
    rows = np.zeros((len(steps), theta.shape[1]))
    places = np.arange(len(steps))
    rows[places, offsets] = (by_odds / length)[0]
    rows[places, offsets + 1] = (by_decay / length)[0]
    left = np.concatenate([problem.y - f[0], lengths - np.log(length[0])])
    noise: Floats = block_diag(factor @ factor.T, np.diag(sd**2))
    return left, np.vstack([gradient[0], rows]), noise
