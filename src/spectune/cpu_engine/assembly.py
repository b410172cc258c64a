"""Puts an engine together from options: models, memory, drafter."""

from pathlib import Path

from spectune.cpu_engine.draft_graph import DraftModel
from spectune.cpu_engine.drafter import Drafter, ModelDrafter, NgramDrafter, NoDrafter
from spectune.cpu_engine.engine import Engine
from spectune.cpu_engine.kv_cache import MemoryPlan, plan_memory
from spectune.cpu_engine.messages import Ready
from spectune.cpu_engine.model_config import ModelConfig
from spectune.cpu_engine.options import EngineOptions
from spectune.cpu_engine.schedule import fixed
from spectune.cpu_engine.target import Target
from spectune.cpu_engine.tree_drafter import TreeDrafter
from spectune.cpu_engine.weights import MODELS, read_draft, read_target

BYTES = 4  # float32


def build_engine(options: EngineOptions, models: Path = MODELS) -> tuple[Engine, Ready]:
    """The engine and what it tells the front; raises ValueError where memory does not suffice."""
    config, weights = read_target(models / "target")
    draft = _read_draft(options, models)
    memory = memory_plan(options, config, draft)
    aux_layers = draft.config.aux_layers if draft is not None and draft.is_head else ()
    target = Target(
        config,
        weights,
        aux_layers=aux_layers,
        num_slots=memory.max_running_requests,
        context_length=options.context_length,
        num_threads=options.num_threads,
        with_trees=options.topk > 1,
    )
    engine = Engine(
        target,
        _drafter(options, draft, memory.max_running_requests + 1),
        num_draft_tokens=options.num_draft_tokens,
        lookahead=options.lookahead,
        prefill_tokens=options.prefill_tokens,
        prefix_bytes=options.prefix_bytes,
        corrupt_every=options.corrupt_every,
    )
    ready = Ready(
        max_running_requests=memory.max_running_requests,
        max_total_num_tokens=memory.max_total_num_tokens,
        context_length=options.context_length,
    )
    return engine, ready


def memory_plan(options: EngineOptions, config: ModelConfig, draft: DraftModel | None) -> MemoryPlan:
    """How many sequences the byte budget holds: caches of target and draft, and verification workspace."""
    bytes_per_token = config.kv_bytes_per_token
    if draft is not None:
        bytes_per_token += draft.config.kv_bytes_per_token
    return plan_memory(
        options.cache_bytes - options.prefix_bytes,
        context_length=options.context_length,
        bytes_per_token=bytes_per_token,
        workspace_bytes=options.num_draft_tokens * _bytes_per_verified_token(config, draft, options),
        max_running_requests=options.max_running_requests,
    )


def _bytes_per_verified_token(config: ModelConfig, draft: DraftModel | None, options: EngineOptions) -> int:
    """Memory one verified token takes at the peak of a step.

    Logits, the features for the head (twice: the step's and the pending copy), the MLP's three rows and
    attention scores over a full context.
    """
    features = 2 * draft.feature_size if draft is not None else 0
    scores = config.num_heads * options.context_length
    return BYTES * (config.vocab_size + features + 3 * config.intermediate_size + scores)


def _read_draft(options: EngineOptions, models: Path) -> DraftModel | None:
    match options.method:
        case "eagle":
            return read_draft(models / "eagle")
        case "draft_model":
            return read_draft(models / "draft")
        case "ngram" | "off":
            return None


def _drafter(options: EngineOptions, draft: DraftModel | None, num_slots: int) -> Drafter:
    if draft is not None and options.topk > 1:
        return TreeDrafter(
            draft,
            num_steps=options.num_steps,
            topk=options.topk,
            num_draft_tokens=options.num_draft_tokens,
            num_slots=num_slots,
            num_threads=options.num_threads,
        )
    schedule = options.schedule or fixed(options.num_steps)
    if draft is not None:
        return ModelDrafter(draft, schedule, num_slots, options.num_threads)
    return NgramDrafter(schedule) if options.method == "ngram" else NoDrafter()
