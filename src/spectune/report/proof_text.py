"""How an answer was proved, in sentences: fresh launches, schedule, lossless check, noise, caveats."""

from typing import assert_never

from spectune.analysis.caveats import Caveat
from spectune.analysis.comparison import SpeedDifference
from spectune.analysis.latency_limits import LimitCheck
from spectune.analysis.launches import Arm
from spectune.analysis.lossless import Lossless
from spectune.analysis.noise import Noise
from spectune.analysis.recommendation import Recommendation
from spectune.analysis.schedule_answer import ScheduleAnswer, ScheduleLevel
from spectune.domain.spec_config import SpecConfig
from spectune.metrics.quantiles import MIN_VALUES_FOR_P99
from spectune.report import numbers

_WIDE = 3.0  # an interval whose ends are this many times apart tells nothing


def difference_text(found: SpeedDifference, of: str) -> str:
    """A difference with its interval: '1.52× of off [1.44×, 1.60×]'."""
    text = f"{numbers.ratio(found.ratio)} of {of}"
    if found.ratio_ci is None:
        return text
    if is_too_wide(found):
        return f"{text} (too noisy to tell)"
    return f"{text} [{numbers.ratio(found.ratio_ci[0])}, {numbers.ratio(found.ratio_ci[1])}]"


def is_too_wide(found: SpeedDifference) -> bool:
    """Whether the interval tells nothing, as that of a level other processes disturbed."""
    return found.ratio_ci is not None and found.ratio_ci[1] > _WIDE * found.ratio_ci[0]


def confirmation_text(found: Recommendation) -> str:
    """Whether fresh prompts and a fresh launch said the same."""
    confirmation, label = found.confirmation, found.config.label
    if confirmation.verdict == "not measured again":
        text = f"not measured again: {label} was not launched again on fresh prompts"
        if confirmation.failure:
            text = (
                f"not measured again: the fresh launch of {label} failed: {confirmation.failure.rstrip('.')}"
            )
        return text + _overturned(found)
    launches = "a fresh launch" if confirmation.launches == 1 else f"{confirmation.launches} fresh launches"
    text = f"{confirmation.verdict} on fresh prompts by {launches}"
    over = "over the mix" if found.mix.is_asked else "over the levels"
    if confirmation.over_off is not None:
        text += f": {difference_text(confirmation.over_off, 'off')} {over}"
    elif confirmation.over_rival is not None and confirmation.rival is not None:
        text += f": {difference_text(confirmation.over_rival, confirmation.rival.label)} {over}"
    rival = confirmation.rival
    if confirmation.verdict == "not confirmed" and rival is not None and confirmation.over_rival is not None:
        text += f"; {rival.label} was faster there, {numbers.ratio(1 / confirmation.over_rival.ratio)} of it"
    return text + _overturned(found)


def _overturned(found: Recommendation) -> str:
    if found.instead_of is None:
        return ""
    if found.confirmation.verdict == "not measured again":
        return f"; the search alone would have said {found.instead_of.label}"
    return f"; the search alone would have said {found.instead_of.label}, fresh prompts overturned it"


def fresh_text(found: Recommendation) -> str:
    """The fresh figures beside the search's, level by level; "" where there are none."""
    parts = []
    for level in found.confirmation.levels:
        part = f"{numbers.rate(level.output_tps)} tok/s at {level.concurrency}"
        if level.fresh_over_search is not None:
            part += f" ({difference_text(level.fresh_over_search, 'the search')})"
        parts.append(part)
    return f"on fresh prompts: {numbers.listing(parts)}" if parts else ""


def schedule_why(found: ScheduleAnswer) -> str:
    """Why the schedule's verdict is what it is."""
    best = found.best_fixed.label
    if not found.measured:
        if found.is_started:
            return found.failure or "its server was started, but no level that counts was measured"
        return found.failure or "no server was started with it"
    if found.loss is not None:
        slower = f"it is slower than {found.loss.to.label} {_place(found.loss.level)}: "
        return slower + difference_text(found.loss.difference, found.loss.to.label)
    if found.mean_gain is None:
        return f"it was not measured beside {best} at every level"
    gain = f"over the levels it is {difference_text(found.mean_gain, best)}"
    if found.verdict == "recommended":
        return gain
    return f"{gain}, no more than a tie: one fixed setting is simpler"


def lossless_text(found: Lossless) -> str:
    """Whether speculation changes greedy answers."""
    if found.verdict == "not checked":
        return f"not checked: {found.why}"
    total = found.total
    floor = "off was measured once"
    if found.floor.agreement is not None:
        floor = f"off agrees with itself in {_share(found.floor.agreement)} of them"
    text = f"{found.verdict}: {total.tokens} tokens of greedy answers beside off's, "
    text += f"{_share(total.agreement or 0.0)} before a first difference; {floor}"
    if found.first is not None:
        first = found.first
        text += f"; the earliest at about token {first.token} of request {first.index} at {first.concurrency}"
    broken = [one for one in found.arms if one.valid[0] < one.valid[1]]
    if broken:
        worst = min(broken, key=lambda one: one.valid[0] / one.valid[1])
        text += f"; {worst.valid[0]} of {worst.valid[1]} answers in the form that was asked for, "
        text += f"{worst.valid_off[0]} of {worst.valid_off[1]} with off"
    return text + _calls_text(found)


def changed_answers_text(recommended: SpecConfig, found: Lossless) -> str:
    """A warning when the recommended setting is one whose greedy answers are not off's; "" otherwise."""
    arm = next((one for one in found.arms if one.arm == Arm(config=recommended)), None)
    if arm is None or arm.verdict != "differs":
        return ""
    share = _share(arm.found.agreement or 0.0)
    return (
        f"but its greedy answers are not off's ({share} of the tokens before a first difference; see the "
        "lossless check): find out why before you put it in place"
    )


def _calls_text(found: Lossless) -> str:
    """Whether the calls of tools are what the requests allow; "" where none was made."""
    made, (valid_off, made_off) = sum(one.calls[1] for one in found.arms), found.calls_off
    if not made and not made_off:
        return ""
    valid = sum(one.calls[0] for one in found.arms)
    return f"; {valid} of {made} tool calls fit the tools offered, {valid_off} of {made_off} with off"


def noise_text(noise: Noise) -> str:
    """What the figures vary by."""
    again = "no setting was launched again, so that is prior knowledge"
    if noise.num_repeats:
        launches = "launch" if noise.num_repeats == 1 else "launches"
        again = f"prior knowledge and {noise.num_repeats} repeated {launches}"
    text = f"a launch varies by {numbers.percent(noise.launch_sd)} ({again})"
    if noise.prompt_sd is not None:
        text += f", prompts by {numbers.percent(noise.prompt_sd)}"
    if noise.block_sd is not None:
        text += f", the time within a launch by {numbers.percent(noise.block_sd)}"
    return text


def drift_text(noise: Noise) -> str:
    """That the machine changed while it was measured; "" where nothing says so."""
    drift = noise.drift
    if drift is None or not drift.is_clear:
        return ""
    ends = [numbers.percent(end - 1, signed=True) for end in drift.ratio_ci]
    return (
        f"the machine drifted: the same cells ran {numbers.percent(drift.ratio - 1, signed=True)} later on "
        f"[{ends[0]}, {ends[1]}]; heat or another process; what was measured far apart is less sure"
    )


def mix_text(found: Recommendation) -> str:
    """What the recommendation is for, where the user said it; "" otherwise."""
    if not found.mix.is_asked:
        return ""
    shares = [f"{numbers.percent(level.share)} at {level.concurrency}" for level in found.mix.levels]
    text = f"for a mix of {numbers.listing(shares)}"
    for level in found.mix.levels:
        if not level.is_measured:
            taken = numbers.listing([str(neighbour) for neighbour in level.neighbours])
            text += f"; {level.concurrency} was not measured and is taken from {taken}"
    return text


def limits_text(found: Recommendation) -> str:
    """Which settings break a latency limit; "" where none was asked for."""
    if not found.limits:
        return ""
    broken: dict[str, str] = {}
    for check in found.limits:
        if not check.is_kept:
            broken.setdefault(check.config.label, _limit(check))
    text = "every setting keeps the latency limits"
    if not all(check.is_told for check in found.limits):
        text = "no setting is seen to break a latency limit"
    if broken:
        listed = numbers.listing([f"{label} ({place})" for label, place in broken.items()])
        text = f"out for a latency limit: {listed}"
    if not found.keeps_limits:
        text += "; no setting keeps them all, so the fastest is named"
    return text + _doubt(found) if found.keeps_limits else text


def _doubt(found: Recommendation) -> str:
    """What is not sure of the recommended setting's limits, all of which it seems to keep."""
    label, own = found.config.label, [check for check in found.limits if check.config == found.config]
    untold = [f"{check.name.replace('_', ' ')} at {check.concurrency}" for check in own if not check.is_told]
    if untold:
        told = f"cannot be told from fewer than {MIN_VALUES_FOR_P99} requests: their p90 does"
        return f"; whether {label} keeps {numbers.listing(untold)} {told}"
    if not all(check.is_certain for check in own):
        return f"; that {label} keeps them is not certain with so few requests"
    return ""


def caveat_text(found: Caveat) -> str:
    """What the sign is and what to do."""
    at, length = numbers.listing([str(level) for level in found.concurrency]), numbers.per_step(found.value)
    label = "" if found.config is None else found.config.label
    match found.kind:
        case "no acceptance":
            return (
                f"{label} makes {length} tokens per verification step: next to nothing of the draft is "
                "accepted; is it the draft of this model, and the right method?"
            )
        case "all accepted":
            return (
                f"{label} accepts nearly its whole draft at {at} ({length} tokens per step): it is at "
                "its ceiling; more steps may pay, or the text repeats itself"
            )
        case "acceptance falls":
            low, high = found.concurrency[0], found.concurrency[-1]
            return (
                f"{label}: {numbers.percent(found.value)} fewer draft tokens are accepted at {high} than at "
                f"{low}; that much is seldom the text, look at the engine"
            )
        case "unreadable counters":
            return f"{label}: the counters at {at} cannot be true, acceptance is not shown: {found.detail}"
        case "not fresh":
            return (
                f"up to {numbers.percent(found.value)} of the fresh prompts at {at} were the search's: the "
                "workload has too few"
            )
        case "surprising":
            words = "" if found.surprise is None else found.surprise.words
            return f"{label} at {at} is surprising: {words}"
        case _:
            assert_never(found.kind)


def _place(level: ScheduleLevel) -> str:
    return f"on the load up to {level.concurrency} and down" if level.is_ramp else f"at {level.concurrency}"


def _limit(check: LimitCheck) -> str:
    name = f"{check.name.partition('_')[0]} {check.judged_by}"
    return f"{name} {numbers.milliseconds(check.value_s)} ms at {check.concurrency}"


def _share(value: float) -> str:
    """A share that is close to the whole.

    >>> _share(1.0), _share(0.99987), _share(0.9)
    ('100%', '99.99%', '90%')
    """
    if value == 1.0:
        return "100%"
    return f"{min(100 * value, 99.99):.2f}%" if value > 0.99 else numbers.percent(value)
