"""Quantiles of a sample, only as far out as its size bears."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

MIN_VALUES_FOR_P99 = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantiles:
    """Quantiles in the sample's unit; `p99` only from 200 values on, all None for an empty sample."""

    p50: float | None
    p90: float | None
    p99: float | None


def quantiles(values: Iterable[float | None]) -> Quantiles:
    """Quantiles by linear interpolation; absent values are left out."""
    sample = np.array([value for value in values if value is not None])
    if not len(sample):
        return Quantiles(p50=None, p90=None, p99=None)
    p50, p90, p99 = (float(value) for value in np.quantile(sample, (0.5, 0.9, 0.99)))
    return Quantiles(p50=p50, p90=p90, p99=p99 if len(sample) >= MIN_VALUES_FOR_P99 else None)


def stand_in(sample: Quantiles, name: str) -> tuple[str, float] | None:
    """The quantile a limit is judged by, and its value; None for an empty sample.

    That is the one it names, or, of a p99 that too few values bear, the p90: a p99 is no lower, so a limit
    that the p90 breaks is broken, and one that the p90 keeps cannot be told.

    Args:
        sample: its quantiles.
        name: "p50", "p90" or "p99".

    >>> stand_in(quantiles([1.0, 2.0, 3.0]), "p99")
    ('p90', 2.8)
    """
    value = {"p50": sample.p50, "p90": sample.p90, "p99": sample.p99}[name]
    if value is not None:
        return name, value
    return None if sample.p90 is None else ("p90", sample.p90)
