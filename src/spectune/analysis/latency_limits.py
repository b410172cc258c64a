"""Which settings keep the latency limits, with intervals from order statistics.

The q-quantile of n values lies between two of them: the number of values below it is binomial(n, q), so the
ranks that cut off 2.5 % of that distribution on each side enclose it in 95 % of samples, whatever the
distribution of the values (David and Nagaraja, *Order Statistics*, 3rd ed., section 7.1). With few values
the upper end of a high quantile is unknown. A p99 of fewer than 200 requests is judged by their p90, which it
cannot lie below: broken where that breaks the limit, else not to be told (metrics/quantiles.stand_in). What
cannot be told does not rule a setting out.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import bdtr

from spectune.analysis.comparison import LevelFit
from spectune.analysis.launches import Arm
from spectune.analysis.winners import Fits
from spectune.domain.measurement import RequestRecord
from spectune.domain.spec_config import SpecConfig
from spectune.metrics.latency import e2e_s, tpot_s, ttft_s
from spectune.metrics.quantiles import quantiles, stand_in
from spectune.perfmodel.arrays import Floats

_METRICS = {"ttft": ttft_s, "tpot": tpot_s, "e2e": e2e_s}


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitCheck:
    """One setting at one level against one limit.

    Attributes:
        config: the setting.
        concurrency: the level.
        name: as "ttft_p99".
        limit_s: what it should stay below.
        value_s: what was measured, over all its launches.
        judged_by: the quantile that `value_s` is: the limit's own, or "p90" where too few requests bear it.
        interval_s: 95 %; an end is None where there are too few requests to tell.
    """

    config: SpecConfig
    concurrency: int
    name: str
    limit_s: float
    value_s: float
    judged_by: str
    interval_s: tuple[float | None, float | None]

    @property
    def is_kept(self) -> bool:
        """Whether what was measured does not break the limit."""
        return self.value_s <= self.limit_s

    @property
    def is_told(self) -> bool:
        """Whether the requests are enough to say that it is kept, or that it is not."""
        return self.name.endswith(self.judged_by) or not self.is_kept

    @property
    def is_certain(self) -> bool:
        """Whether the interval says the same."""
        low, high = self.interval_s
        return (high is not None and high <= self.limit_s) or (low is not None and low > self.limit_s)


def check_limits(
    fits: Fits, slo: tuple[tuple[str, float], ...], weights: Mapping[int, float]
) -> tuple[LimitCheck, ...]:
    """Every setting at every level that counts against every limit, where it was measured."""
    return tuple(
        check
        for name, limit_s in slo
        for level in sorted(weights)
        if level in fits
        for config in fits[level].settings
        if (check := _check(fits[level], config, name, limit_s)) is not None
    )


def quantile_interval(values: Floats, share: float) -> tuple[float | None, float | None]:
    """Order statistics that enclose a quantile in 95 % of samples.

    Args:
        values: in any order. Shape [num_values].
        share: which quantile, in (0, 1).

    >>> quantile_interval(np.arange(100.0), 0.5), quantile_interval(np.arange(100.0), 0.99)
    ((39.0, 60.0), (96.0, None))
    """
    ordered = np.sort(values)
    below = bdtr(np.arange(len(ordered)), len(ordered), share)  # P(at most that many lie below)
    low = int(np.searchsorted(below, 0.025, side="right")) - 1
    high = int(np.searchsorted(below, 0.975))
    return (
        float(ordered[low]) if low >= 0 else None,
        float(ordered[high]) if high < len(ordered) else None,
    )


def _check(fit: LevelFit, config: SpecConfig, name: str, limit_s: float) -> LimitCheck | None:
    metric, _, quantile = name.partition("_")
    records = (
        record
        for cell in fit.cells_of(Arm(config=config))
        for record in cell.measurement.records
        if record.is_ok
    )
    values = np.array(list(_values(records, metric)))
    judged = stand_in(quantiles(values), quantile)
    if judged is None:
        return None
    return LimitCheck(
        config=config,
        concurrency=fit.concurrency,
        name=name,
        limit_s=limit_s,
        value_s=judged[1],
        judged_by=judged[0],
        interval_s=quantile_interval(values, int(quantile[1:]) / 100),
    )


def _values(records: Iterable[RequestRecord], metric: str) -> Iterable[float]:
    measure = _METRICS[metric]
    return (value for record in records if (value := measure(record)) is not None)
