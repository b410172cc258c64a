"""The plan of a study before anything is started: settings, launches, expected time."""

import dataclasses
import json
from dataclasses import dataclass

from spectune.domain.spec_config import SpecConfig
from spectune.domain.study import Study
from spectune.report import numbers
from spectune.report.document import Document, Items, Paragraph, Section

PLAN_SCHEMA = "spectune.plan/1"


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
        min_launches: fewest launches the search can do with, failures aside.
        notes: what the user should know.
    """

    study: Study
    settings: tuple[PlannedSetting, ...]
    min_launches: int
    notes: tuple[str, ...] = ()

    @property
    def max_launches(self) -> int:
        """Most launches."""
        return sum(not setting.obstacle for setting in self.settings)

    @property
    def expected_s(self) -> float | None:
        """Seconds with the budget used up, launches included; None without a budget."""
        return self.study.budget_s


def plan_document(plan: StudyPlan) -> Document:
    """The plan as a page."""
    study = plan.study
    levels = numbers.listing([str(level) for level in study.concurrency])
    settings = tuple(
        f"{setting.config.label}: {' '.join(setting.launch_args) or setting.obstacle or 'no flags'}"
        for setting in plan.settings
    )
    facts = (
        f"engine: {study.engine}; command: {study.command.printable}",
        f"workload: {study.workload.name} ({study.workload.num_prompts} distinct prompts)",
        f"levels: {levels} concurrent requests, the same requests for every setting",
        _search(study),
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


def render_plan_json(plan: StudyPlan) -> str:
    """The plan as JSON text, ending with a line break."""
    value = {
        "schema": PLAN_SCHEMA,
        "engine": plan.study.engine,
        "command": plan.study.command.printable,
        "workload": dataclasses.asdict(plan.study.workload),
        "concurrency": list(plan.study.concurrency),
        "search": dataclasses.asdict(plan.study.search),
        "settings": [
            {
                "config": dataclasses.asdict(setting.config),
                "launch_args": list(setting.launch_args),
                "obstacle": setting.obstacle,
            }
            for setting in plan.settings
        ],
        "launches": {"min": plan.min_launches, "max": plan.max_launches},
        "budget_s": plan.study.budget_s,
        "expected_s": plan.expected_s,
    }
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _effort(plan: StudyPlan) -> str:
    fewest, most = plan.min_launches, plan.max_launches
    launches = str(most) if fewest == most else f"{fewest} to {most}"
    if plan.study.budget_s is None or plan.expected_s is None:
        return f"{launches} launches; measuring time without a limit."
    shortest = plan.expected_s * fewest / most if most else 0.0
    return f"{launches} launches; {_span(shortest, plan.expected_s)} in all, launches included."


def _span(shortest_s: float, longest_s: float) -> str:
    if shortest_s == longest_s:
        return f"about {numbers.duration(longest_s)}"
    return f"about {numbers.duration(shortest_s)} to {numbers.duration(longest_s)}"
