"""What a study recommends, as something to put in place: its fixed setting, or its schedule."""

from dataclasses import dataclass

from spectune.analysis.answers import StudyAnswers
from spectune.domain.command import Command
from spectune.domain.schedule import Schedule
from spectune.domain.spec_config import SpecConfig
from spectune.engines.adapter import EngineAdapter, Scheduled
from spectune.errors import ConfigError
from spectune.report.proof_text import schedule_why


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is to run.

    Attributes:
        config: the setting; of a schedule, the chain with its most steps.
        schedule: steps by batch size; None for the setting alone.
    """

    config: SpecConfig
    schedule: Schedule | None = None

    def started(self, adapter: EngineAdapter, command: Command, file: str) -> Scheduled:
        """The command that runs it, and the text of the file it names, "" where it names none.

        Args:
            adapter: the engine's dialect.
            command: as it stands.
            file: where a file of the schedule would be.

        Raises:
            ConfigError: the engine cannot run the schedule.
        """
        if self.schedule is None:
            return Scheduled(command=adapter.command_for(command, self.config))
        obstacle = adapter.check_schedule(command, self.config, self.schedule)
        if obstacle:
            raise ConfigError(
                f"spectune apply --schedule: `{adapter.name} can run {self.schedule.label}` must hold: "
                f"{obstacle} Leave --schedule out for the fixed setting."
            )
        return adapter.scheduled(command, self.config, self.schedule, file)


def recommended(answers: StudyAnswers) -> Wanted:
    """The fixed setting; raises ConfigError where there is none."""
    if answers.recommendation is None:
        raise ConfigError(
            f"study {answers.study.id}: `it recommends a setting` must hold, it recommends none."
        )
    return Wanted(config=answers.recommendation.config)


def recommended_schedule(answers: StudyAnswers) -> Wanted:
    """The schedule; raises ConfigError where it was not measured, or is no better than the fixed setting."""
    found = answers.schedule
    if found is None or found.verdict != "recommended":
        said = "it has none" if found is None else f"{found.schedule.label} {_verdict(found.verdict)}"
        why = "" if found is None else f" ({schedule_why(found)})"
        raise ConfigError(
            f"study {answers.study.id}: `its schedule is recommended` must hold, {said}{why}; leave "
            "--schedule out for the fixed setting, or tune with --schedule."
        )
    return Wanted(config=found.config, schedule=found.schedule)


def _verdict(word: str) -> str:
    return "was not measured" if word == "not measured" else word
