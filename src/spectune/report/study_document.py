"""A study's answers as a document: the page every renderer shows."""

import shlex
from collections import Counter

from spectune.analysis.answers import ArmAnswer, StudyAnswers, TrialAnswer, UnfinishedAnswer
from spectune.analysis.comparison import CI_LEVEL, SpeedDifference
from spectune.analysis.winners import Rival, Winner, contested, effort
from spectune.domain.spec_config import SpecConfig
from spectune.metrics.summary import LevelSummary
from spectune.report import numbers
from spectune.report.document import Block, Code, Document, Items, Paragraph, Section, Table
from spectune.report.proof_sections import (
    arms_in_order,
    crossover_section,
    lever_section,
    proof_section,
    schedule_section,
    speedup_section,
)
from spectune.report.proof_text import changed_answers_text, is_too_wide, limits_text, mix_text
from spectune.report.why import level_sentences, why

_BEST = "*"
_DISTURBED = "~"
_LOG_LINES = 12
_LINE = 48


def study_document(answers: StudyAnswers, *, store_flag: str = "") -> Document:
    """The whole page.

    Args:
        answers: of the study.
        store_flag: what a command needs after the study's name to find its store.
    """
    sections = [
        _speed_section(answers),
        speedup_section(answers),
        _winners_section(answers),
        crossover_section(answers),
        _request_section(answers),
        _trouble_section(answers),
        _recommendation_section(answers),
        schedule_section(answers),
        lever_section(answers),
        proof_section(answers),
        _cost_section(answers, store_flag),
    ]
    return Document(
        title=f"spectune study {answers.study.id}",
        lead=(Items(items=_identity(answers)),),
        sections=tuple(section for section in sections if section is not None),
    )


def _identity(answers: StudyAnswers) -> tuple[str, ...]:
    study, environment = answers.study, answers.study.environment
    models = {t.effective.model for t in answers.trials if t.effective is not None and t.effective.model}
    engine = " ".join(word for word in (study.engine, answers.engine_version, *sorted(models)) if word)
    memory = numbers.gibibytes(environment.memory_bytes)
    machine = f"{environment.cpu_model}, {environment.num_cpus} CPUs, {memory}, {environment.platform}"
    gpus = [f"{count} × {gpu}" for gpu, count in Counter(environment.gpus).items()]
    temperature = "as in each request" if study.workload.temperature is None else study.workload.temperature
    return (
        f"engine: {engine}",
        f"workload: {study.workload.name}, temperature {temperature}, seed {study.workload.seed}",
        f"machine: {'; '.join([machine, *gpus])}",
        f"command: {study.command.printable}",
    )


def _speed_section(answers: StudyAnswers) -> Section:
    levels = answers.study.concurrency
    best = {(winner.config, winner.concurrency) for winner in contested(answers.winners)}
    rows = [_arm_row(answers, arm, best) for arm in arms_in_order(answers)]
    counted = {number for arm in answers.arms for number in arm.trials}
    unfit = sorted((t for t in answers.trials if t.trial.id not in counted), key=_trial_effort)
    rows += [_trial_row(trial, levels) for trial in unfit]
    rows += [_unfinished_row(unfinished, levels) for unfinished in answers.unfinished]
    head = ("setting", *(f"at {level}" for level in levels), "accept. length", "capacity", "outcome")
    notes = [f"{_BEST} best of its level"]
    if _is_disturbed(answers):
        notes.append(f"{_DISTURBED} disturbed by other processes")
    notes.append("accept. length at the lowest level – highest level; capacity: most requests run at once")
    if any(len(arm.trials) > 1 for arm in answers.arms):
        notes.append("of several launches the mean, on the search's prompts")
    notes += [
        f"{trial.trial.label} differs from the other arms: {trial.effective.differs}"
        for trial in answers.trials
        if trial.effective is not None and trial.effective.differs
    ]
    title = "Output tokens/s by setting and concurrent requests"
    blocks = (Table(head=head, rows=tuple(rows)), Paragraph(text="; ".join(dict.fromkeys(notes)) + "."))
    return Section(title=title, blocks=blocks)


def _trial_effort(trial: TrialAnswer) -> tuple[int, int]:
    return effort(trial.trial.config)  # not as launched


def _arm_row(answers: StudyAnswers, arm: ArmAnswer, best: set[tuple[SpecConfig, int]]) -> tuple[str, ...]:
    """One row for all launches of a setting, a schedule, or off with a lever."""
    first = next(trial for trial in answers.trials if trial.trial.id == arm.trials[0])
    by_level = {level.concurrency: level for level in arm.levels}
    cells = [
        _speed_text(
            by_level[level].output_tps,
            is_best=arm.arm.is_setting and (arm.arm.config, level) in best,
            is_disturbed=by_level[level].disturbed,
        )
        if level in by_level
        else numbers.MISSING + " "
        for level in answers.study.concurrency
    ]
    capacity = first.effective.max_running_requests if first.effective is not None else None
    launches = len(arm.trials)
    outcome = first.outcome if launches == 1 else f"{launches} launches"
    return (first.trial.label, *cells, _acceptance(first.levels), numbers.count(capacity), outcome)


def _trial_row(trial: TrialAnswer, levels: tuple[int, ...]) -> tuple[str, ...]:
    by_level = {summary.concurrency: summary for summary in trial.levels}
    capacity = trial.effective.max_running_requests if trial.effective is not None else None
    cells = (_speed_cell(by_level.get(level)) for level in levels)
    return (
        trial.trial.label,
        *cells,
        _acceptance(trial.levels),
        numbers.count(capacity),
        trial.outcome,
    )


def _unfinished_row(unfinished: UnfinishedAnswer, levels: tuple[int, ...]) -> tuple[str, ...]:
    by_level = {summary.concurrency: summary for summary in unfinished.levels}
    cells = (_speed_cell(by_level.get(level)) for level in levels)
    acceptance = _acceptance(unfinished.levels)
    return (unfinished.trial.label, *cells, acceptance, numbers.MISSING, "unfinished")


def _speed_cell(summary: LevelSummary | None) -> str:
    if summary is None:
        return numbers.MISSING + " "
    return _speed_text(summary.output_tps, is_best=False, is_disturbed=summary.disturbed)


def _speed_text(tps: float | None, *, is_best: bool, is_disturbed: bool) -> str:
    return numbers.rate(tps) + (_DISTURBED if is_disturbed else "") + (_BEST if is_best else " ")


def _acceptance(levels: tuple[LevelSummary, ...]) -> str:
    known = [s.acceptance_length for s in levels if s.acceptance_length is not None]
    if not known:
        return numbers.MISSING
    ends = [numbers.per_step(known[0]), numbers.per_step(known[-1])]
    return ends[0] if ends[0] == ends[1] else " – ".join(ends)


def _winners_section(answers: StudyAnswers) -> Section | None:
    if not answers.winners:
        return None
    note = (
        f"Margins are {CI_LEVEL:.0%} intervals of the difference on the same prompts, wide enough for having "
        "picked the best of several; how much launches differ is in them."
    )
    wide = [str(winner.concurrency) for winner in answers.winners if _is_hidden(winner)]
    if wide:
        note += f" At {numbers.listing(wide)} the intervals are so wide that they tell nothing."
    if _is_disturbed(answers):
        note += (
            f" Levels marked {_DISTURBED} could have been faster by what other processes took, and the "
            "intervals allow for it: for a clear answer, measure again on a quiet machine."
        )
    winners = Items(items=tuple(_winner_line(answers, winner) for winner in answers.winners))
    return Section(title="Winners", blocks=(winners, Paragraph(text=note)))


def _is_hidden(winner: Winner) -> bool:
    return bool(winner.rivals) and is_too_wide(winner.rivals[0].difference)


def _is_disturbed(answers: StudyAnswers) -> bool:
    return any(summary.disturbed for trial in answers.trials for summary in trial.levels)


def _winner_line(answers: StudyAnswers, winner: Winner) -> str:
    if winner.is_alone:
        only = f"{winner.config.label}, {numbers.rate(winner.output_tps)} tok/s"
        return f"at {winner.concurrency}: only {only}, was measured, so nothing was won"
    speed = f"at {winner.concurrency}: {winner.config.label}, {numbers.rate(winner.output_tps)} tok/s"
    if winner.speedup_over_off is not None and not winner.config.is_off:
        speed += f", {numbers.ratio(winner.speedup_over_off)} of off"
        equal = answers.equal_limits_speedup(winner)
        if answers.baselines.limited is not None and equal is not None:
            speed += f" ({numbers.ratio(equal)} at equal limits)"
    rival = winner.rivals[0]
    if winner.is_tie_rule:
        return f"{speed}; {_margin(rival)}: a tie within 1%, the fewer steps are taken"
    if winner.decided:
        return f"{speed}; {_margin(rival)}"
    return f"{speed}; no clear winner: {_margin(rival)}{_other_open(winner)}"


def _other_open(winner: Winner) -> str:
    """Names the rivals behind the next one that the noise does not tell apart either."""
    others = [rival.config.label for rival in winner.rivals[1:] if not rival.difference.is_decided]
    if len(others) > 1 and len(others) == len(winner.rivals) - 1:
        return ", nor told apart from any other setting"
    return f", nor told apart from {numbers.listing(others, last='or')}" if others else ""


def _margin(rival: Rival) -> str:
    change = rival.difference.ratio - 1
    word = "ahead of" if change >= 0 else "behind"
    return f"{numbers.percent(abs(change))} {word} {rival.config.label} {_interval(rival.difference)}"


def _interval(difference: SpeedDifference) -> str:
    if difference.ratio_ci is None:
        return "(too few requests for an interval)"
    if is_too_wide(difference):
        return "(too noisy to tell)"
    low, high = (numbers.percent(end - 1, signed=True) for end in difference.ratio_ci)
    return f"[{low}, {high}]"


def _request_section(answers: StudyAnswers) -> Section | None:
    """What one request sees: off beside the setting that is best at the level."""
    rows = [
        _request_row(trial, summary)
        for level in answers.study.concurrency
        for trial in _first_launches(answers)
        for summary in trial.levels
        if summary.concurrency == level and summary.part == "search" and _is_shown(answers, trial, level)
    ]
    if not rows:
        return None
    head = ("requests", "setting", "tok/s", "TTFT", "TPOT", "end to end", "tok/step", "step")
    title = "Per request: off and the level's best (tok/s median; times in ms, p50 / p90)"
    return Section(title=title, blocks=(Table(head=head, rows=tuple(rows), first_fixed=2),))


def _first_launches(answers: StudyAnswers) -> list[TrialAnswer]:
    """Of each setting the first trial that counts."""
    first = {arm.trials[0] for arm in answers.arms if arm.arm.is_setting}
    return [trial for trial in answers.trials if trial.trial.id in first]


def _is_shown(answers: StudyAnswers, trial: TrialAnswer, level: int) -> bool:
    winning = {w.config for w in answers.winners if w.concurrency == level}
    return trial.trial.config.is_off or trial.trial.config in winning


def _request_row(trial: TrialAnswer, summary: LevelSummary) -> tuple[str, ...]:
    spreads = (summary.ttft_s, summary.tpot_s, summary.e2e_s)
    return (
        str(summary.concurrency),
        trial.trial.config.label,
        numbers.rate(summary.request_tps),
        *(f"{numbers.milliseconds(spread.p50)} / {numbers.milliseconds(spread.p90)}" for spread in spreads),
        numbers.per_step(summary.tokens_per_step),
        numbers.milliseconds(summary.step_s),
    )


def _trouble_section(answers: StudyAnswers) -> Section | None:
    blocks: list[Block] = []
    for trial in answers.trials:
        if trial.outcome != "completed":
            reason = f"{trial.trial.label} (trial {trial.trial.id}) {trial.outcome}: {trial.reason}"
            blocks.append(Items(items=(reason,)))
            tail = "\n".join(trial.log_tail.strip().splitlines()[-_LOG_LINES:])
            if tail:
                blocks.append(Code(text=tail))
    return Section(title="Settings without a result", blocks=tuple(blocks)) if blocks else None


def _recommendation_section(answers: StudyAnswers) -> Section:
    found = answers.recommendation
    if found is None:
        of = " of the mix" if answers.study.proof.mix else ""
        text = f"None: no setting was measured at every level{of}."
        return Section(title="Recommendation", blocks=(Paragraph(text=text),))
    title = f"Recommendation: {found.config.label}"
    levels = () if found.config.is_off else tuple(level_sentences(found).values())
    doubts = [mix_text(found), limits_text(found), changed_answers_text(found.config, answers.lossless)]
    reason = [why(found, has_mechanism=not levels), *_sentences(doubts)]
    if not found.launch_args:
        arguments: tuple[Block, ...] = (Paragraph(text="Launch without any flags of speculation."),)
    else:
        arguments = (Paragraph(text="Launch arguments:"), Code(text=_pasteable(found.launch_args)))
    told: tuple[Block, ...] = (Paragraph(text=" ".join(reason)), *([Items(items=levels)] if levels else []))
    return Section(title=title, blocks=(*told, *arguments))


def _sentences(texts: list[str]) -> list[str]:
    return [f"{text[0].upper()}{text[1:]}." for text in texts if text]


def _pasteable(arguments: tuple[str, ...]) -> str:
    """The arguments as shell text of short lines."""
    lines = [""]
    for word in map(shlex.quote, arguments):
        if word.startswith("-") and len(lines[-1]) > _LINE:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return " \\\n".join(lines)


def _cost_section(answers: StudyAnswers, store_flag: str) -> Section:
    cost = answers.cost
    launches = f"{cost.launches} launch" + ("" if cost.launches == 1 else "es")
    service = answers.study.service
    away = "no running service was stopped"
    if service:
        away = f"{service} was away for about {numbers.duration(cost.downtime_s)}"
    text = f"{launches}, {numbers.duration(cost.wall_s)}; {away}. "
    if answers.finished:
        text += f"The search ended because {answers.finished}. Again from the raw records: "
        text += f"`spectune show {answers.study.id}{store_flag}`."
    else:
        text += "The study was interrupted; it goes on with: "
        text += f"`spectune tune --resume {answers.study.id}{store_flag}`."
    return Section(title="Cost", blocks=(Paragraph(text=text),))
