"""The recommendation's reason as sentences a person would write, from measured figures."""

from spectune.analysis.level_reason import LevelReason
from spectune.analysis.recommendation import Alternative, Recommendation
from spectune.report import numbers

_CLEAR = 0.01


def why(recommendation: Recommendation) -> str:
    """Why this setting: its speed beside off, and the tokens and the time of a step that give it."""
    return " ".join([_claim(recommendation), *_mechanism(recommendation), *_losses(recommendation)])


def _claim(recommendation: Recommendation) -> str:
    levels = recommendation.levels
    if recommendation.config.is_off:
        return _claim_off(recommendation.alternative)
    where = "level" if len(levels) == 1 else "levels"
    rank = f"the fastest over the {where}"
    if recommendation.is_tie_rule:
        rank = f"within 1% of the fastest over the {where}, with fewer steps"
    speedups = [level for level in levels if level.speedup_over_off is not None]
    if not speedups:
        return f"{recommendation.config.label} is {rank}; off was not measured."
    at = numbers.listing([f"{numbers.ratio(r.speedup_over_off)} at {r.concurrency}" for r in speedups])
    return f"{recommendation.config.label} is {rank}: {at}, against off."


def _claim_off(alternative: Alternative | None) -> str:
    if alternative is None:
        return "No setting with speculation could be measured at every level, so speculation stays off."
    at = numbers.listing(
        [f"{numbers.ratio(r.speedup_over_off)} at {r.concurrency}" for r in alternative.levels]
    )
    runs = f"The best setting with it, {alternative.config.label}, runs at {at}, against off."
    paying = [r for r in alternative.levels if (r.speedup_over_off or 0) > 1 + _CLEAR]
    if not paying:
        return f"Off wins: speculation does not pay here. {runs}"
    where = numbers.listing([str(r.concurrency) for r in paying])
    return f"Off is the fastest over all levels together, though speculation pays at {where}. {runs}"


def _mechanism(recommendation: Recommendation) -> list[str]:
    """Tokens per step against the step's length, at the lowest and the highest level."""
    if recommendation.config.is_off:
        levels = recommendation.alternative.levels if recommendation.alternative else ()
    else:
        levels = recommendation.levels
    ends = levels if len(levels) < 2 else (levels[0], levels[-1])
    return [sentence for sentence in map(_step_sentence, ends) if sentence]


def _step_sentence(level: LevelReason) -> str:
    if level.tokens_per_step is None or level.step_s is None:
        return ""
    made = (
        f"At {level.concurrency} a step makes {numbers.per_step(level.tokens_per_step)} tokens per request "
        f"and takes {numbers.milliseconds(level.step_s)} ms"
    )
    if level.off_step_s is None:
        return made + "."
    return f"{made}, {numbers.ratio(level.step_s / level.off_step_s)} of the {_off_step(level.off_step_s)}."


def _off_step(off_step_s: float) -> str:
    return f"{numbers.milliseconds(off_step_s)} ms of a step without speculation"


def _losses(recommendation: Recommendation) -> list[str]:
    behind = [level for level in recommendation.levels if level.loss > _CLEAR]
    if not behind:
        return []
    at = numbers.listing([f"{numbers.percent(level.loss)} at {level.concurrency}" for level in behind])
    return [f"It stays below the level's own best by {at}."]
