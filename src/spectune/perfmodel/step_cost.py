"""Time of one draft-and-verify step as a function of batch and draft length. Second factor of the speed.

    t(b, K) = T · (1 + m·(1 − exp(−n ÷ n0)) + c·n + s·b + v·b·[K > 0] + d·K) · (off if K = 0)
    n = b · draft tokens

Symbols
    t    time of a step                                                       s
    T    time of a step with nothing in it: weights read once, launches       s
    b    sequences running in the step                                        1
    n    tokens verified in the step                                          1
    m    share of T added when saturating costs are full: experts that are
         read once touched, tiles that are filled                             1
    n0   tokens at which 63 % of m is reached; E ÷ (k·kappa) for experts      tokens
    c    share of T per verified token (arithmetic)                           1
    s    share of T per sequence (cache reads, sampling)                      1
    d    share of T per draft forward                                         1
    v    share of T per sequence that is verified, however few its drafts:    1
         another attention kernel, sampling by position, the draft's cache
    off  factor on the step without speculation (other kernels, no drafting)  1

Sources: linear token costs as in TurboSpec (arXiv 2406.14066); experts touched E·(1 − (1 − k/E)^n) as in
MoESD (arXiv 2505.19645), written with exp and a factor kappa for correlated routing; K·draft + verify is
MagicDec's (arXiv 2408.11049). Dense models keep a smaller m: kernels fill up in tiles. v is ours: on the
published H200 grids a step with one draft token takes 1.3 (vLLM) and 2.9 (SGLang) times a step without
speculation at 64 sequences, and 1.1 to 1.3 times at one.
"""

from dataclasses import dataclass

import numpy as np

from spectune.perfmodel.arrays import Floats

PARAMETERS = ("log_T", "log_m", "log_n0", "log_c", "log_s", "log_d", "off", "log_v")
NUM_PARAMETERS = len(PARAMETERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepShape:
    """What runs in a step, cell by cell.

    Attributes:
        batch: sequences running, [draws or 1, cells].
        tokens: draft tokens per sequence, root included, [cells].
        num_steps: draft forwards, [cells].
    """

    batch: Floats
    tokens: Floats
    num_steps: Floats

    @property
    def is_off(self) -> Floats:
        """1.0 where speculation is off."""
        return np.where(self.num_steps == 0, 1.0, 0.0)

    @property
    def is_verifying(self) -> Floats:
        """1.0 where draft tokens are verified."""
        return np.where(self.tokens > 1, 1.0, 0.0)


def log_step_time(theta: Floats, shape: StepShape) -> Floats:
    """Log seconds of a step, [draws, cells], for parameters [draws, >= 7] in the order of PARAMETERS."""
    return log_step_time_gradient(theta, shape)[0]


def log_step_time_gradient(theta: Floats, shape: StepShape) -> tuple[Floats, Floats]:
    """Log seconds [draws, cells] and derivatives [draws, cells, 8]."""
    n = shape.batch * shape.tokens
    log_t, off = theta[:, :1], theta[:, 6:7]
    m, n0, c, s, d, v = (np.exp(theta[:, i : i + 1]) for i in (1, 2, 3, 4, 5, 7))
    decay = np.exp(-n / n0)
    parts = (
        m * (1.0 - decay),
        -m * decay * n / n0,
        c * n,
        s * shape.batch,
        d * shape.num_steps,
        v * shape.batch * shape.is_verifying,
    )
    terms = np.stack(np.broadcast_arrays(*parts), axis=-1)  # [draws, cells, 6]: derivatives by the logarithms
    total = 1.0 + terms[..., 0] + terms[..., 2:].sum(axis=-1)
    gradient = np.empty((*total.shape, NUM_PARAMETERS))
    gradient[..., 0] = 1.0
    gradient[..., [1, 2, 3, 4, 5, 7]] = terms / total[..., None]
    gradient[..., 6] = shape.is_off
    return log_t + np.log(total) + off * shape.is_off, gradient
