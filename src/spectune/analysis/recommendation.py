"""One setting for the mix of levels, and the measured reasons for it.

The rule: of the settings that were measured at every level of the mix and keep the latency limits, the one
with the least mean log loss over it, where a setting's log loss at a level is log(best tokens/s there ÷ its
own). That is the highest weighted geometric mean of speed; without a mix all levels weigh the same. Within
1 % the setting with fewer steps is taken. Once finalists were measured again on fresh prompts, only they
may be recommended: what the search found best of several is partly the luckiest. Where the search's own
choice is not among them, as when its fresh launch failed, nothing speaks against it and it stays.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from spectune.analysis.baselines import Baselines
from spectune.analysis.comparison import TIE_SHARE
from spectune.analysis.confirmation import Confirmation, confirm, failure_again
from spectune.analysis.latency_limits import LimitCheck, check_limits
from spectune.analysis.launches import Arm, capacities
from spectune.analysis.level_reason import LevelReason, reasons
from spectune.analysis.mix import Mix, mean_log_speed, mix_of
from spectune.analysis.study_fit import StudyFit, fit_study, of_search
from spectune.analysis.winners import Fits, effort
from spectune.domain.spec_config import SpecConfig
from spectune.domain.study import Study, StudyHistory


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The best setting of some.

    Attributes:
        config: the setting.
        is_tie_rule: whether a setting with more steps was better by less than 1 %.
        means: mean log tokens/s over the mix of every setting that has all levels.
    """

    config: SpecConfig
    is_tie_rule: bool
    means: dict[SpecConfig, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """The best setting of the other kind: speculation when off is recommended, off otherwise.

    Attributes:
        config: the setting.
        mean_ratio: geometric mean over the mix of its tokens/s ÷ the recommended one's.
        levels: its reasons.
    """

    config: SpecConfig
    mean_ratio: float
    levels: tuple[LevelReason, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """The setting to run.

    Attributes:
        config: the setting.
        launch_args: flags that give it.
        levels: its reasons, by ascending concurrency.
        is_tie_rule: whether a setting with more steps was better by less than 1 %.
        alternative: what it is told apart from; None when nothing else was measured.
        mix: what it is for.
        confirmation: what fresh prompts and a fresh launch said.
        instead_of: what the search alone would have recommended; None when that is the same.
        limits: every setting against every latency limit; empty when none was asked for.
        keeps_limits: whether it keeps them; when no setting does, the best of all is recommended.
    """

    config: SpecConfig
    launch_args: tuple[str, ...]
    levels: tuple[LevelReason, ...]
    is_tie_rule: bool
    alternative: Alternative | None
    mix: Mix
    confirmation: Confirmation
    instead_of: SpecConfig | None = None
    limits: tuple[LimitCheck, ...] = ()
    keeps_limits: bool = True


def recommend(history: StudyHistory, fit: StudyFit, baselines: Baselines) -> Recommendation | None:
    """The recommended setting, launch arguments still empty; None when none has the mix's levels."""
    study, mix = history.study, mix_of(history.study)
    fresh = fit.of_parts(["fresh"])
    searched = choose_setting(study, fit_study(of_search(history)).levels)
    chosen = _settle(study, fit.levels, fresh, searched)
    if chosen is None:
        return None
    limits = check_limits(fit.levels, study.proof.slo, mix.weights)
    asked = {level: found for level, found in fit.levels.items() if level in study.concurrency}
    config, capacity = chosen.config, capacities(history)
    return Recommendation(
        config=config,
        launch_args=(),
        levels=reasons(asked, config, tuple(chosen.means), baselines, capacity.get(config)),
        is_tie_rule=chosen.is_tie_rule,
        alternative=_alternative(asked, chosen, baselines, capacity),
        mix=mix,
        confirmation=confirm(fit, fresh, Arm(config=config), mix, failure_again(history, config)),
        instead_of=None if searched is None or searched.config == config else searched.config,
        limits=limits,
        keeps_limits=all(check.is_kept for check in limits if check.config == config),
    )


def _settle(study: Study, fits: Fits, fresh: Fits, searched: Choice | None) -> Choice | None:
    """The best of what was measured again, if the search's choice was too; else the search's choice."""
    mix = mix_of(study)
    again = set(_whole(fits, mix)) & set(_whole(fresh, mix))
    if searched is None or not again:
        return choose_setting(study, fits, among=again or None)
    if searched.config in again:
        return choose_setting(study, fits, among=again)
    kept = choose_setting(study, fits, among=[searched.config])
    return kept and replace(kept, is_tie_rule=searched.is_tie_rule)


def choose_setting(study: Study, fits: Fits, among: Collection[SpecConfig] | None = None) -> Choice | None:
    """The best setting for the study's mix and limits.

    Args:
        study: the question.
        fits: the arms of each level.
        among: settings that may be chosen; None for all.

    Returns:
        None when no setting has every level of the mix. When none keeps the limits, the best of those that
        do not.
    """
    mix = mix_of(study)
    scores = {
        config: score
        for config in _whole(fits, mix)
        if (score := mean_log_speed(fits, Arm(config=config), mix.weights)) is not None
    }
    broken = {c.config for c in check_limits(fits, study.proof.slo, mix.weights) if not c.is_kept}
    allowed = [config for config in scores if among is None or config in among]
    allowed = [config for config in allowed if config not in broken] or allowed
    if not allowed:
        return None
    best = max(scores[config] for config in allowed)
    near = (config for config in allowed if scores[config] >= best + math.log1p(-TIE_SHARE))
    config = min(near, key=effort)
    return Choice(config=config, is_tie_rule=scores[config] < best, means=scores)


def _whole(fits: Fits, mix: Mix) -> list[SpecConfig]:
    """The settings that were measured at every level that counts."""
    if not set(mix.weights) <= set(fits):
        return []
    first, *others = (fits[level].settings for level in sorted(mix.weights))
    return [config for config in first if all(config in other for other in others)]


def _alternative(
    fits: Fits, chosen: Choice, baselines: Baselines, capacity: Mapping[SpecConfig, int]
) -> Alternative | None:
    others = [config for config in chosen.means if config.is_off != chosen.config.is_off]
    if not others:
        return None
    config = max(others, key=lambda other: chosen.means[other])
    return Alternative(
        config=config,
        mean_ratio=math.exp(chosen.means[config] - chosen.means[chosen.config]),
        levels=reasons(fits, config, tuple(chosen.means), baselines, capacity.get(config)),
    )
