"""The recommendation's reason as sentences a person would write, from measured figures."""

from spectune.analysis.level_reason import LevelReason
from spectune.analysis.recommendation import Alternative, Recommendation
from spectune.report import numbers

_CLEAR = 0.01
_FEW = 0.6  # share of the requests; where no more of them run, it is said


def why(recommendation: Recommendation, *, has_mechanism: bool = True) -> str:
    """Why this setting: its speed beside off, and the tokens and the time of a step that give it.

    Args:
        recommendation: what is explained.
        has_mechanism: whether tokens and time of a step are told; level by level they are by level_sentences.
    """
    mechanism = _mechanism(recommendation) if has_mechanism else []
    return " ".join([_claim(recommendation), *mechanism, *_losses(recommendation)])


def level_sentences(recommendation: Recommendation) -> dict[str, str]:
    """For each level what its speed is made of, and what stands out; only levels with counters."""
    found = {str(level.concurrency): _level_sentence(level) for level in recommendation.levels}
    return {level: sentence for level, sentence in found.items() if sentence}


def _level_sentence(level: LevelReason) -> str:
    if level.running is None or level.tokens_per_step is None or level.step_s is None:
        return ""
    text = (
        f"At {level.concurrency}: {level.running:.1f} running × {numbers.per_step(level.tokens_per_step)} "
        f"tokens per step ÷ {numbers.milliseconds(level.step_s)} ms = "
        f"{numbers.rate(level.running * level.tokens_per_step / level.step_s)} tok/s"
    )
    return " ".join([f"{text}.", *filter(None, (_crowding(level), _extra_time(level)))])


def _crowding(level: LevelReason) -> str:
    """What keeps requests from running."""
    if level.running is None or level.concurrency == 1:
        return ""
    running, waits = f"{level.running:.0f} of the {level.concurrency}", _wait(level)
    if level.capacity is not None and level.capacity < level.concurrency:
        return f"The server runs {running}, because it holds no more than {level.capacity} at once{waits}."
    if level.running > _FEW * level.concurrency:
        return ""
    return f"{running} requests run at a time; the others wait, or their prompts are being read{waits}."


def _wait(level: LevelReason) -> str:
    if level.ttft_s is None or level.off_ttft_s is None:
        return ""
    own, off = numbers.milliseconds(level.ttft_s), numbers.milliseconds(level.off_ttft_s)
    return f": {own} ms to the first token against {off} ms with off"


def _extra_time(level: LevelReason) -> str:
    """What drafting and verifying add to a step."""
    share = level.extra_step_share
    if share is None or share < _CLEAR or level.off_step_s is None or level.step_s is None:
        return ""
    growth = numbers.ratio(level.step_s / level.off_step_s)
    return f"Drafting and verifying are {numbers.percent(share)} of a step, {growth} of off's."


def _claim(recommendation: Recommendation) -> str:
    levels = recommendation.levels
    if recommendation.config.is_off:
        return _claim_off(recommendation.alternative)
    where = "mix" if recommendation.mix.is_asked else "level" if len(levels) == 1 else "levels"
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
