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
