"""The composition root: which part is used where, written out."""

import os
import secrets
import socket
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from spectune import __version__
from spectune.analysis.answers import StudyAnswers, answer
from spectune.cli.engine_facts import learn, with_file
from spectune.cli.llamacpp_door import is_llamacpp_command, llamacpp_command
from spectune.cli.machine import read_environment
from spectune.cli.planners import fewest, planner_of, search_share, sized_launches, staged_planner
from spectune.cli.stored_study import NEWEST, study_named
from spectune.cli.tune_options import DEFAULT_NUM_STEPS, TuneOptions
from spectune.cli.workload_source import load_pool
from spectune.clock import SystemClock
from spectune.domain.command import MASK, Command
from spectune.domain.spec_config import SpecConfig
from spectune.domain.study import SearchSpace, Study, StudyHistory
from spectune.domain.text import shortened
from spectune.engines import schedule_forms, tensorrt_llm
from spectune.engines.adapter import EngineAdapter
from spectune.engines.embedded import EmbeddedAdapter
from spectune.engines.known_bugs import bugs_before_launch
from spectune.engines.levers import check_lever
from spectune.engines.llamacpp import LlamacppAdapter
from spectune.engines.sglang import SglangAdapter
from spectune.engines.vllm import VllmAdapter
from spectune.errors import ConfigError, StoreError
from spectune.launch.foreign_cpu import CpuReading, read_cpu
from spectune.launch.launcher import Launcher
from spectune.launch.memory import MemoryReader, nothing_read, read_local_memory
from spectune.launch.subprocess_launcher import SubprocessLauncher
from spectune.launch.visible_gpus import visible_gpus
from spectune.planning.grid import grid_configs
from spectune.report.plan_document import PlannedSetting, StudyPlan
from spectune.storage.sqlite_store import SqliteStore, default_store_path
from spectune.tuning.loop import tune
from spectune.tuning.pilot import num_pilot_prompts
from spectune.tuning.progress import Progress
from spectune.tuning.run_trial import TrialRunner, TrialSetup
from spectune.tuning.sizing import least_prompts
from spectune.workloads.prompts import PromptPool

_EMBEDDED_COMMAND = (sys.executable, "-m", "spectune", "serve")
_ADAPTERS: tuple[EngineAdapter, ...] = (
    EmbeddedAdapter(),
    SglangAdapter(),
    VllmAdapter(),
    LlamacppAdapter(),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedStudy:
    """A study with everything needed to run it.

    Attributes:
        study: the question, as stored.
        command: what is started: the study's command, with a free port for the embedded engine.
        adapter: the engine's dialect.
        pool: the workload.
        notes: what was added to the command, in every arm.
        resumed: how much is there already; None for a new study.
    """

    study: Study
    command: Command
    adapter: EngineAdapter
    pool: PromptPool
    notes: tuple[str, ...] = ()
    resumed: StudyHistory | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeping:
    """How a study's servers are kept.

    Attributes:
        launcher: starts them.
        is_local: whether they run on this machine.
        is_shared: whether others may reach them too.
        read_memory: tells the free memory of the machine they run on.
    """

    launcher: Launcher
    is_local: bool = True
    is_shared: bool = False
    read_memory: MemoryReader = nothing_read


def open_store(store_file: str) -> SqliteStore:
    """The store of `--store`, else the one in the user's data folder."""
    path = Path(store_file) if store_file else default_store_path(os.environ)
    return SqliteStore(path, SystemClock(), __version__)


def begin_study(options: TuneOptions, started_with: Mapping[str, str] | None) -> PreparedStudy:
    """A new study; raises ConfigError.

    Args:
        options: what is asked for.
        started_with: the environment of its servers; None where they run on another machine, whose GPUs are
            not recorded.
    """
    asked = Command(argv=options.command or _own_command(options))
    adapter = recognise(asked)
    if options.service is None:  # a service's program and files may be on another machine
        adapter = learn(adapter, asked)
    adapter.endpoint(asked)  # a malformed address is refused before anything starts
    prepared = adapter.prepared(asked, max_concurrency=options.concurrency[-1])
    pool = load_pool(options.workload, options.seed)
    _check_prompts(pool, options.concurrency)
    study = Study(
        id=f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}",
        created_unix_s=time.time(),
        engine=adapter.name,
        command=asked,
        space=_space(options, adapter, asked),
        workload=pool.spec,
        concurrency=options.concurrency,
        budget_s=options.budget_s,
        environment=read_environment(() if started_with is None else visible_gpus(asked, started_with)),
        search=options.search,
        proof=options.proof,
    )
    return PreparedStudy(
        study=study, command=_startable(prepared.command), adapter=adapter, pool=pool, notes=prepared.notes
    )


def resume_study(options: TuneOptions, store: SqliteStore) -> PreparedStudy:
    """An interrupted study; raises ConfigError or StoreError."""
    is_newest = options.resume == NEWEST
    study_id = _newest_unfinished(store) if is_newest else study_named(store, options.resume, "--resume")
    history = store.history(study_id)
    if history.finished:
        raise ConfigError(
            f"--resume {study_id}: `the study was interrupted` must hold, it is finished: "
            f"{history.finished}; see it with `spectune show {study_id}`."
        )
    command = _resumed_command(history.study, options.command)
    workload = history.study.workload
    pool = load_pool(workload.name, workload.seed)
    if pool.spec != workload:
        raise ConfigError(
            f"--resume {study_id}: `the workload is the one it began with` must hold, {workload.name} has "
            "changed; begin a new study."
        )
    study = replace(history.study, command=command)
    adapter = recognise(command)
    if options.service is None:
        adapter = learn(adapter, command)
    prepared = adapter.prepared(command, max_concurrency=study.concurrency[-1])
    return PreparedStudy(
        study=study,
        command=_startable(prepared.command),
        adapter=adapter,
        pool=pool,
        notes=prepared.notes,
        resumed=history,
    )


def run_study(
    prepared: PreparedStudy, store: SqliteStore, progress: Progress, keeping: Keeping | None = None
) -> StudyHistory:
    """Runs the study until the planner stops, on processes of our own unless `keeping` says otherwise."""
    clock = SystemClock()
    own = SubprocessLauncher(log_folder(store, prepared.study.id), clock, drain_s=prepared.adapter.drain_s)
    visible = visible_gpus(prepared.command, os.environ)
    keeping = keeping or Keeping(launcher=own, read_memory=partial(read_local_memory, visible))
    planner = staged_planner(prepared.study, prepared.adapter)
    setup = TrialSetup(
        adapter=prepared.adapter,
        launcher=keeping.launcher,
        command=prepared.command,
        pool=prepared.pool,
        concurrency=prepared.study.concurrency,
        budget_s=prepared.study.budget_s,
        max_settings=sized_launches(prepared.study),
        clock=clock,
        hang_s=prepared.adapter.hang_s,
        read_cpu=read_cpu if keeping.is_local else _no_cpu,
        is_shared=keeping.is_shared,
        read_memory=keeping.read_memory,
        search_share=search_share(prepared.study),
    )
    return tune(prepared.study, store, planner, partial(TrialRunner, setup), progress)


def plan_study(prepared: PreparedStudy) -> StudyPlan:
    """What running it would do."""
    study, adapter = prepared.study, prepared.adapter
    configs = [trial.config for trial in planner_of(study).candidates(study)]
    settings = tuple(_planned(adapter, study.command, config) for config in configs)
    feasible = sum(not setting.obstacle for setting in settings)
    notes = [*prepared.pool.notes, *prepared.notes, *_known_bugs(adapter, study.command, configs)]
    if 0 not in study.space.num_steps:
        notes.append("off (0) is not among --num-steps, so there are no speedups over it")
    return StudyPlan(
        study=study,
        settings=settings,
        min_launches=min(feasible, fewest(study)),
        notes=tuple(notes),
    )


def answers_of(history: StudyHistory) -> StudyAnswers:
    """The answers, with the engine's own launch arguments."""
    return answer(
        history,
        launch_args_of(history.study.engine, history.study.command),
        lambda config, schedule: schedule_forms.export(schedule, config.method),
    )


def launch_args_of(engine: str, command: Command) -> Callable[[SpecConfig], tuple[str, ...]]:
    """How the engine of this name is told a setting of this command."""
    return partial(with_file(adapter_of(engine), command).launch_args, command)


def adapter_of(engine: str) -> EngineAdapter:
    """The dialect of this name."""
    for adapter in _ADAPTERS:
        if adapter.name == engine:
            return adapter
    raise StoreError(f"engine {engine!r}: `one this spectune knows` must hold; upgrade spectune.")


def log_folder(store: SqliteStore, study_id: str) -> Path:
    """Where the study's servers log."""
    return store.path.with_name(store.path.name + ".logs") / study_id


def recognise(command: Command) -> EngineAdapter:
    """The dialect of a serve command; raises ConfigError."""
    for adapter in _ADAPTERS:
        if adapter.recognises(command):
            return adapter
    if tensorrt_llm.recognises(command):
        raise ConfigError(
            "serve command: `an engine that spectune tunes` must be given, TensorRT-LLM is not one yet: its "
            "dialect is read from source and was never run."
        )
    raise ConfigError(
        f"serve command: `the engine must be one spectune knows`, got {command.masked_argv[0]!r}; it knows "
        "`vllm serve`, `python -m sglang.launch_server`, `sglang serve`, `llama-server`, `spectune serve`, "
        "also behind env, numactl, uv run, bash -c or docker run."
    )


def _own_command(options: TuneOptions) -> tuple[str, ...]:
    """What is started where the user gave no serve command."""
    if options.engine != "llamacpp":
        return _EMBEDDED_COMMAND
    return llamacpp_command(options.model, slots=options.concurrency[-1])


def _space(options: TuneOptions, adapter: EngineAdapter, command: Command) -> SearchSpace:
    """The settings asked for; every one of them is checked here, before anything is started."""
    first, *more = options.methods or adapter.methods(command)[:1]
    space = SearchSpace(
        method=first,
        num_steps=DEFAULT_NUM_STEPS if options.num_steps is None else options.num_steps,
        topk=options.topk,
        num_draft_tokens=options.num_draft_tokens,
        is_exhaustive=options.num_steps is not None,
        more_methods=tuple(more),
        probe_topk=_probe(options, adapter, command, first),
        levers=("", *options.levers),
    )
    for lever in options.levers:
        obstacle = check_lever(adapter.name, lever, adapter.facts.help_text)
        if obstacle:
            raise ConfigError(f"--lever {shortened(lever)!r}: `the engine has it` must hold: {obstacle}")
    for method in (first, *more):
        configs = [c for c in grid_configs(replace(space, method=method, more_methods=())) if not c.is_off]
        obstacles = [adapter.check(command, config) for config in configs]
        if obstacles and all(obstacles):
            raise ConfigError(
                f"settings: `one of them can run` must hold, none of {method} can: {obstacles[0]}"
                + (" Leave it out of --methods." if more else "")
            )
    return space


def _probe(options: TuneOptions, adapter: EngineAdapter, command: Command, method: str) -> int | None:
    """Branches of the one tree that a search by the model looks at; None where there can be none."""
    if options.search.kind != "model" or "topk" in options.given:
        return None
    tree = SpecConfig(method=method, num_steps=2, topk=2, num_draft_tokens=5)
    return None if adapter.check(command, tree) else 2


def _check_prompts(pool: PromptPool, concurrency: tuple[int, ...]) -> None:
    """Raises ConfigError where no server could be measured with these prompts."""
    least, there = least_prompts(concurrency), len(pool.prompts) - num_pilot_prompts(pool, concurrency)
    if there < least:
        raise ConfigError(
            f"workload {pool.spec.name}: `distinct prompts >= {len(pool.prompts) + least - there}` must hold "
            f"for concurrency {', '.join(map(str, concurrency))}, got {len(pool.prompts)}; add prompts or "
            "give lower levels with --concurrency."
        )


def _startable(command: Command) -> Command:
    """A command of our own gets a port that is free now; a user's command stays as it is."""
    is_own = command.argv == _EMBEDDED_COMMAND or is_llamacpp_command(command.argv)
    if not is_own or "--port" in command.argv:
        return command
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    return replace(command, argv=(*command.argv, "--port", str(port)))


def _newest_unfinished(store: SqliteStore) -> str:
    waiting = [summary for summary in store.studies() if not summary.finished and not summary.is_open]
    if not waiting:
        raise ConfigError(f"--resume: `an interrupted study` must be in {store.path}, there is none.")
    return waiting[-1].study.id


def _resumed_command(study: Study, given: tuple[str, ...]) -> Command:
    stored = study.command
    if given:
        command = Command(argv=given, env=stored.env)
        if command.masked_argv != stored.argv:
            raise ConfigError(
                f"--resume {study.id}: `the serve command is the one it began with` must hold, got "
                f"{command.printable}, began with {stored.printable}."
            )
        return command
    if any(MASK in word for word in stored.argv):
        raise ConfigError(
            f"--resume {study.id}: `the serve command's secrets are known` must hold, the store masks them; "
            "give the whole command again after --."
        )
    return stored


def _no_cpu(at_s: float, root_pids: Iterable[int]) -> CpuReading | None:
    """Another machine's CPU is not read."""
    del at_s, root_pids
    return None


def _planned(adapter: EngineAdapter, command: Command, config: SpecConfig) -> PlannedSetting:
    obstacle = adapter.check(command, config)
    arguments = () if obstacle else adapter.launch_args(command, config)
    return PlannedSetting(config=config, launch_args=arguments, obstacle=obstacle)


def _known_bugs(adapter: EngineAdapter, command: Command, configs: list[SpecConfig]) -> tuple[str, ...]:
    """What the catalogue says of the planned settings; the version is known only once a server runs."""
    found = [
        f"known: {bug.line}"
        for config in configs
        if not adapter.check(command, config)
        for bug in bugs_before_launch(adapter.name, "", adapter.traits(command, config))
    ]
    return tuple(dict.fromkeys(found))
