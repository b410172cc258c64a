"""Settings at levels where they were not measured: never shown, it decides only what a level may tell.

symbol   meaning                                                                  unit
x_s      log speed of setting s less that of the reference, a setting measured    1
         at most levels; between two levels that both have, linear in log(level)

At a level between those of the search only some settings are measured. It tells which is best where none of
the others would be more than a tie (1 %) ahead of the best measured one by its x_s: then measuring them would
change nothing that matters.
"""

import math
from dataclasses import dataclass

from spectune.analysis.comparison import TIE_SHARE, LevelFit
from spectune.analysis.launches import Arm
from spectune.analysis.winners import Fits
from spectune.domain.spec_config import SpecConfig

TIE = math.log1p(TIE_SHARE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Guess:
    """Each setting's x_s at any level.

    Attributes:
        fits: the arms of each level.
        reference: the setting that x_s is relative to.
        known: x_s by setting and measured level.
    """

    fits: Fits
    reference: SpecConfig | None
    known: dict[SpecConfig, dict[int, float]]

    @classmethod
    def of(cls, fits: Fits) -> "Guess":
        """From everything measured."""
        counts: dict[SpecConfig, int] = {}
        for _, fit in sorted(fits.items()):
            for config in fit.settings:
                counts[config] = counts.get(config, 0) + 1
        reference = max(counts, key=lambda config: counts[config], default=None)
        known: dict[SpecConfig, dict[int, float]] = {config: {} for config in counts}
        for level, fit in fits.items():
            if reference is not None and reference in fit.settings:
                for config in fit.settings:
                    known[config][level] = _log_tps(fit, config) - _log_tps(fit, reference)
        return cls(fits=fits, reference=reference, known=known)

    def at(self, level: int) -> dict[SpecConfig, float]:
        """x_s of every setting that has one; of those measured at the level as they were measured."""
        guessed = {config: x for config in self.known if (x := self._between(config, level)) is not None}
        fit = self.fits.get(level)
        measured = [] if fit is None else [config for config in fit.settings if config in guessed]
        if fit is None or not measured:
            return guessed
        logs = {config: _log_tps(fit, config) for config in measured}
        offset = sum(logs[config] - guessed[config] for config in measured) / len(measured)
        return guessed | {config: log - offset for config, log in logs.items()}

    def rivals_at(self, level: int, ahead_of: SpecConfig | None = None) -> frozenset[SpecConfig]:
        """Settings not measured at the level that may be more than a tie ahead of one that was: the best."""
        xs, measured = self.at(level), self.measured(level)
        marks = measured if ahead_of is None else [ahead_of]
        best = max((xs[config] for config in marks if config in xs), default=math.inf)
        return frozenset(config for config, x in xs.items() if config not in measured and x > best + TIE)

    def measured(self, level: int) -> tuple[SpecConfig, ...]:
        """Settings with a speed at the level."""
        return self.fits[level].settings if level in self.fits else ()

    def _between(self, config: SpecConfig, level: int) -> float | None:
        """From the measured levels around, the level itself included; None beyond them."""
        known = self.known[config]
        below = max((c for c in known if c <= level), default=None)
        above = min((c for c in known if c >= level), default=None)
        if below is None or above is None:
            return None
        if below == above:
            return known[below]
        share = math.log(level / below) / math.log(above / below)
        return (1 - share) * known[below] + share * known[above]


def _log_tps(fit: LevelFit, config: SpecConfig) -> float:
    return math.log(fit.tps(Arm(config=config)))
