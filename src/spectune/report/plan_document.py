"""The plan of a study before anything is started: settings, launches, expected time."""

import dataclasses
import json
from dataclasses import dataclass

from spectune.domain.spec_config import SpecConfig
from spectune.domain.study import ProofRule, Study
from spectune.report import numbers
from spectune.report.document import Document, Items, Paragraph, Section

PLAN_SCHEMA = "spectune.plan/1"
FINALISTS_OF_ONE_ROUND, MOST_FINALISTS = 3, 4  # as `planning.staged` takes them


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSetting:
    """A setting that may be launched.

    Attributes:
        config: the setting.
        launch_args: flags that give it.
        obstacle: why the engine cannot run it, "" when it can.
    """

    config: SpecConfig
    launch_args: tuple[str, ...]
    obstacle: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyPlan:
    """What `spectune tune` would do.

    Attributes:
        study: the question.
        settings: in the order they would be tried.
        min_launches: fewest launches the search can do with, proofs, limits and failures aside.
        notes: what the user should know.
    """

    study: Study
    settings: tuple[PlannedSetting, ...]
    min_launches: int
    notes: tuple[str, ...] = ()

    @property
    def num_searched(self) -> int:
        """Most settings of the search: with every lever where the model searches, and the tree it probes."""
        feasible = sum(not setting.obstacle for setting in self.settings)
        if self.study.search.kind == "grid" or not feasible:
            return feasible
        is_probed = self.study.space.probe_topk is not None and self.study.space.topk == 1
        return feasible * len(self.study.space.levers) + is_probed

    @property
    def fewest_launches(self) -> int:
        """Search and proof where one setting is ahead of all others."""
        proving = self.study.proof.launched_rounds if self.num_searched else 0
        return self._within_limit(self.min_launches + proving)

    @property
    def max_launches(self) -> int:
        """Search and proof, everything that may be launched, once; failures and repeats aside."""
        if not self.num_searched:
            return 0
        proof = self.study.proof
        finalists = min(
            MOST_FINALISTS if proof.launched_rounds > 1 else FINALISTS_OF_ONE_ROUND, self.num_searched
        )
        proving = proof.launched_rounds * (finalists + proof.has_schedule) + proof.has_equal_limits
        proving += proof.most_refining if len(self.study.concurrency) > 1 and finalists > 1 else 0
        return self._within_limit(self.num_searched + proving)

    @property
    def launches_text(self) -> str:
        """Both, for the user: "3 to 8 launches"."""
        fewest, most = self.fewest_launches, self.max_launches
        span = str(most) if fewest == most else f"{fewest} to {most}"
        return f"{span} launch{'' if most == 1 else 'es'}"

    def _within_limit(self, launches: int) -> int:
        limit = self.study.search.max_launches
        return launches if limit is None else min(launches, limit)

    @property
    def expected_s(self) -> float | None:
        """Seconds with the budget used up, launches included; None without a budget."""
        return self.study.budget_s


def plan_document(plan: StudyPlan) -> Document:
    """The plan as a page."""
    study = plan.study
    settings = tuple(
        f"{setting.config.label}: {' '.join(setting.launch_args) or setting.obstacle or 'no flags'}"
        for setting in plan.settings
    )
    facts = (
        f"engine: {study.engine}; command: {study.command.printable}",
        f"workload: {study.workload.name} ({study.workload.num_prompts} distinct prompts)",
        f"levels: {numbers.levels(study.concurrency)}, the same requests for every setting",
        _search(study),
        *_purpose(study.proof),
        *plan.notes,
    )
    return Document(
        title="spectune plan (nothing was started)",
        lead=(Items(items=facts),),
        sections=(
            Section(title="Settings", blocks=(Items(items=settings),)),
            Section(title="Launches and time", blocks=(Paragraph(text=_effort(plan)),)),
        ),
    )


def _search(study: Study) -> str:
    rule = study.search
    if rule.kind == "grid":
        return "search: the settings in order" + ("" if study.space.is_exhaustive else ", until passed")
    return (
        "search: by a performance model; settings are launched in the order of what a launch is worth, and "
        f"no more than leave an expected gain above {numbers.percent(rule.tolerance)}"
    )


def _purpose(proof: ProofRule) -> tuple[str, ...]:
    """What the recommendation is to be for, where the user said it."""
    lines: list[str] = []
    if proof.mix:
        shares = [f"{numbers.percent(share)} at {level}" for level, share in proof.mix]
        lines.append(f"mix: the recommendation is for {numbers.listing(shares)} concurrent requests")
    if proof.slo:
        limits = [
            f"{name.replace('_', ' ')} of {numbers.milliseconds(limit_s)} ms" for name, limit_s in proof.slo
        ]
        lines.append(f"limits: a setting must keep {numbers.listing(limits)} to be recommended")
    return tuple(lines)


def render_plan_json(plan: StudyPlan) -> str:
    """The plan as JSON text, ending with a line break."""
    value = {
        "schema": PLAN_SCHEMA,
        "engine": plan.study.engine,
        "command": plan.study.command.printable,
        "workload": dataclasses.asdict(plan.study.workload),
        "concurrency": list(plan.study.concurrency),
        "search": dataclasses.asdict(plan.study.search),
        "mix": [list(part) for part in plan.study.proof.mix],
        "slo": dict(plan.study.proof.slo),
        "settings": [
            {
                "config": dataclasses.asdict(setting.config),
                "launch_args": list(setting.launch_args),
                "obstacle": setting.obstacle,
            }
            for setting in plan.settings
        ],
        "launches": {"min": plan.fewest_launches, "max": plan.max_launches},
        "budget_s": plan.study.budget_s,
        "expected_s": plan.expected_s,
    }
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _effort(plan: StudyPlan) -> str:
    fewest, most = plan.fewest_launches, plan.max_launches
    if plan.study.budget_s is None or plan.expected_s is None:
        return f"{plan.launches_text}; measuring time without a limit; the time left is told after each."
    shortest = plan.expected_s * fewest / most if most else 0.0
    return f"{plan.launches_text}; {_span(shortest, plan.expected_s)} in all, launches included."


def _span(shortest_s: float, longest_s: float) -> str:
    if shortest_s == longest_s:
        return f"about {numbers.duration(longest_s)}"
    return f"about {numbers.duration(shortest_s)} to {numbers.duration(longest_s)}"
