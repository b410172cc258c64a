"""Parts of a study's page that tell how sure it is: both baselines, changes, schedule, proof."""

from spectune.analysis.answers import ArmAnswer, ArmLevel, StudyAnswers
from spectune.analysis.baselines import Baselines
from spectune.analysis.comparison import SpeedDifference
from spectune.analysis.crossover import BreakEven, Crossover
from spectune.analysis.levers import LeverAnswer
from spectune.analysis.schedule_answer import ScheduleAnswer, ScheduleLevel
from spectune.analysis.winners import contested, effort
from spectune.report import numbers
from spectune.report.document import Block, Code, Items, Paragraph, Section, Table
from spectune.report.proof_text import (
    caveat_text,
    confirmation_text,
    difference_text,
    drift_text,
    fresh_text,
    is_too_wide,
    lossless_text,
    noise_text,
    schedule_why,
)

_CAUSES = {
    "capacity": "capacity: it runs fewer requests at once",
    "verification cost": "verification cost: its steps get longer",
    "acceptance": "acceptance: its steps make fewer tokens",
}


def arms_in_order(answers: StudyAnswers) -> list[ArmAnswer]:
    """Settings by effort, then off at equal limits and schedules."""

    def place(answer: ArmAnswer) -> tuple[int, bool, tuple[int, int]]:
        arm = answer.arm
        return (0 if arm.is_setting else 1, arm.schedule is not None, effort(arm.config))

    return sorted(answers.arms, key=place)


def speedup_section(answers: StudyAnswers) -> Section | None:
    """Every setting beside off, at its own capacity and at equal limits."""
    shown = [arm for arm in arms_in_order(answers) if not arm.arm.config.is_off or arm.arm.schedule]
    if answers.baselines.own_capacity is None or not shown:
        return None
    levels, limited = answers.study.concurrency, answers.baselines.limited is not None
    rows = tuple((_label(answers, arm), *_speedups(arm, levels, is_limited=limited)) for arm in shown)
    own, equal = answers.baselines.own_capacity, answers.baselines.equal_limits
    if limited:
        note = f"÷ off at its own capacity (trial {own}) / ÷ off at equal limits (trial {equal})."
        note += _whose_limit(answers.baselines)
    elif equal is not None:
        note = f"÷ off (trial {own}): no setting's capacity binds at any level, so its limits are equal."
    else:
        note = f"÷ off at its own capacity (trial {own}); off at equal limits was not measured."
    head = ("setting", *(f"at {level}" for level in levels))
    return Section(title="Speedup over off", blocks=(Table(head=head, rows=rows), Paragraph(text=note)))


def _whose_limit(found: Baselines) -> str:
    """Which setting's limit the limited off has, and what is not set against it."""
    if found.limit is None:
        return " How many requests that one runs at once is not known, so nothing is set against it."
    labels = numbers.listing([config.label for config in found.limit_of])
    whose = f", the limit of {labels}" if labels else ""
    return f" That one runs {found.limit} at once{whose}; what runs more is not set against it."


def _label(answers: StudyAnswers, arm: ArmAnswer) -> str:
    return next(trial.trial.label for trial in answers.trials if trial.trial.id == arm.trials[0])


def _speedups(arm: ArmAnswer, levels: tuple[int, ...], *, is_limited: bool) -> list[str]:
    by_level = {level.concurrency: level for level in arm.levels}
    return [_speedup(by_level.get(level), is_limited=is_limited) for level in levels]


def _speedup(level: ArmLevel | None, *, is_limited: bool) -> str:
    if level is None:
        return numbers.MISSING
    own = numbers.ratio(level.speedup_over_off)
    return f"{own} / {numbers.ratio(level.speedup_equal_limits)}" if is_limited else own


def crossover_section(answers: StudyAnswers) -> Section | None:
    """Where the best setting changes and why, and where speculation stops paying."""
    if not answers.winners:
        return None
    levels = [winner.concurrency for winner in contested(answers.winners)]
    lines = [
        _crossover_line(crossover) + _width(answers, (crossover.low, crossover.high))
        for crossover in answers.crossovers
    ]
    if len(levels) < 2 and not lines:
        lines = ["not known: fewer than two levels have more than one measured setting"]
    elif not lines:
        lines = [f"none between {levels[0]} and {levels[-1]} concurrent requests"]
    lines.append(_break_even_line(answers.break_even))
    if answers.break_even.concurrency is not None:
        lines[-1] += _width(answers, answers.break_even.concurrency)
    return Section(title="Where the best setting changes", blocks=(Items(items=tuple(lines)),))


def _width(answers: StudyAnswers, ends: tuple[int, int]) -> str:
    """Why a wide change was not narrowed; "" for a narrow one."""
    found = answers.why_wide(ends)
    return f"; still wide: {found}" if found else ""


def _break_even_line(found: BreakEven) -> str:
    if found.concurrency is not None:
        low, high = found.concurrency
        line = f"break-even with off between {low} and {high}: above, no speculation is faster"
    else:
        line = f"no break-even with off: {found.why}"
    if not found.uncertain:
        return line
    return f"{line} (not certain at {numbers.listing([str(level) for level in found.uncertain])})"


def _crossover_line(crossover: Crossover) -> str:
    line = (
        f"{crossover.from_config.label} → {crossover.to_config.label} between {crossover.low} and "
        f"{crossover.high} concurrent requests"
    )
    if crossover.cause is not None:
        line += f"; {_CAUSES[crossover.cause]}"
    if crossover.decided:
        return line
    if crossover.certain is not None:
        return line + f" (certain between {crossover.certain[0]} and {crossover.certain[1]})"
    return line + " (not certain: the noise does not tell them apart at one end)"


def schedule_section(answers: StudyAnswers) -> Section | None:
    """The schedule that was measured, beside off and the best fixed setting."""
    found = answers.schedule
    if found is None or not found.measured:
        return None
    rows = tuple(_schedule_row(level) for level in found.measured)
    head: tuple[str, ...] = ("requests", "tok/s", "÷ off", f"÷ {found.best_fixed.label}")
    if found.best_fixed.is_off:
        head, rows = head[:-1], tuple(row[:-1] for row in rows)
    table = Table(head=head, rows=rows)
    verdict = f"{found.verdict[0].upper()}{found.verdict[1:]}: {schedule_why(found)}."
    blocks: list[Block] = [Paragraph(text=verdict), table]
    text = found.exported.get(answers.study.engine, "")
    if found.verdict == "recommended" and text:
        blocks += [Paragraph(text=f"For {answers.study.engine}:"), Code(text=text)]
    return Section(title=f"Schedule {found.schedule.label}", blocks=tuple(blocks))


def _schedule_row(level: ScheduleLevel) -> tuple[str, ...]:
    place = f"up to {level.concurrency} and down" if level.is_ramp else str(level.concurrency)
    return (
        place,
        numbers.rate(level.output_tps),
        _difference_cell(level.vs_off),
        _difference_cell(level.vs_best_fixed),
    )


def _difference_cell(found: SpeedDifference | None) -> str:
    if found is None:
        return numbers.MISSING
    ratio = numbers.ratio(found.ratio)
    if found.ratio_ci is None or is_too_wide(found):
        return ratio
    return f"{ratio} [{numbers.ratio(found.ratio_ci[0])}, {numbers.ratio(found.ratio_ci[1])}]"


def lever_section(answers: StudyAnswers) -> Section | None:
    """Capacity flags that were tried, beside the recommended setting without them."""
    chosen = answers.recommendation
    if chosen is None or not answers.levers:
        return None
    lines = tuple(_lever_line(found, chosen.config.label) for found in answers.levers)
    return Section(title="Capacity flags", blocks=(Items(items=lines),))


def _lever_line(found: LeverAnswer, best: str) -> str:
    runs = "" if found.capacity is None else f" (runs {found.capacity} at once)"
    name = f"{found.config.label}, {found.lever}{runs}"
    if found.mean_gain is None:
        measured = numbers.listing([str(level.concurrency) for level in found.levels])
        return f"{name}: measured at {measured or 'no level'} only, so it cannot be set against {best}"
    verdict = {"better": "worth setting", "not certain": "not certain", "no gain": "no gain"}[found.verdict]
    return f"{name}: {difference_text(found.mean_gain, best)} over the levels: {verdict}"


def proof_section(answers: StudyAnswers) -> Section | None:
    """How sure the page is."""
    chosen = answers.recommendation
    if chosen is None:
        return None
    lines = [f"confirmation: {confirmation_text(chosen)}"]
    if fresh := fresh_text(chosen):
        lines.append(fresh)
    if answers.schedule is not None and not answers.schedule.measured:
        lines.append(_unmeasured_schedule(answers.schedule))
    lines += [f"lossless: {lossless_text(answers.lossless)}", f"noise: {noise_text(answers.noise)}"]
    if drift := drift_text(answers.noise):
        lines.append(drift)
    lines += [f"beware: {caveat_text(caveat)}" for caveat in answers.caveats]
    return Section(title="How sure this is", blocks=(Items(items=tuple(lines)),))


def _unmeasured_schedule(found: ScheduleAnswer) -> str:
    return (
        f"schedule: the winners suggest {found.schedule.label} (steps by running requests); not measured, "
        f"so not recommended: {schedule_why(found)}"
    )
