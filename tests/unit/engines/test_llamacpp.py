import json

import pytest

from spectune.domain.command import Command
from spectune.domain.spec_config import OFF, SpecConfig
from spectune.engines.adapter import EngineFacts, ServerTraces
from spectune.engines.llamacpp import LlamacppAdapter, read_metrics
from spectune.errors import ConfigError, ProtocolError

ADAPTER = LlamacppAdapter()
PROPS = json.dumps({"total_slots": 4, "default_generation_settings": {"n_ctx": 2048}, "build_info": "b1"})


def command(*flags: str) -> Command:
    return Command(argv=("llama-server", "-m", "m.gguf", *flags))


def slots(*speculative: bool) -> str:
    return json.dumps([{"id": number, "speculative": on} for number, on in enumerate(speculative)])


@pytest.mark.parametrize(
    "argv",
    [
        ("/opt/llama.cpp/build/bin/llama-server", "-m", "m.gguf"),
        ("docker", "run", "-p", "8080:8080", "ghcr.io/ggml-org/llama.cpp:server", "-m", "/m.gguf"),
        ("python3", "-m", "spectune.llama_server"),
    ],
)
def test_its_commands_are_recognised(argv: tuple[str, ...]) -> None:
    assert ADAPTER.recognises(Command(argv=argv))


def test_metrics_are_switched_on_and_a_small_server_is_told() -> None:
    prepared = ADAPTER.prepared(command("-np", "2"), max_concurrency=8)
    assert prepared.command == command("-np", "2", "--metrics")
    assert any("queue" in note for note in prepared.notes)
    with pytest.raises(ConfigError, match="--no-slots"):
        ADAPTER.prepared(command("--no-slots"), max_concurrency=8)


def test_the_slots_prove_that_the_setting_of_the_command_runs() -> None:
    given = command("-md", "d.gguf", "--spec-draft-n-max", "5", "-np", "4")
    on = ADAPTER.read_settings(given, (PROPS, slots(True, True)), "")
    assert on.config == SpecConfig.chain("draft_model", 5)
    assert (on.max_running_requests, on.max_total_num_tokens) == (4, 8192)
    assert on.covariates() == {"n_parallel": "4"}
    assert ADAPTER.read_settings(given, (PROPS, slots(False, False)), "").config == OFF
    assert ADAPTER.read_settings(command(), (PROPS, slots(True)), "").config.method == "unknown"


@pytest.mark.parametrize("answer", [slots(), slots(True, False), '[{"id": 0}]', "[1]", "{}"])
def test_slots_that_do_not_tell_are_refused(answer: str) -> None:
    with pytest.raises(ProtocolError, match="/slots"):
        ADAPTER.read_settings(command(), (PROPS, answer), "")


BASE = "llamacpp:tokens_predicted_total 100\n"
COUNTS = "llamacpp:spec_decode_num_draft_tokens_total 80\nllamacpp:spec_decode_num_accepted_tokens_total 60\n"


def test_steps_are_counted_or_derived() -> None:
    counted = read_metrics(f"{BASE}{COUNTS}llamacpp:spec_decode_num_drafts_total 30\n")
    derived = read_metrics(BASE + COUNTS)
    assert counted is not None
    assert derived is not None
    assert (counted.verify_steps, counted.undrafted_steps) == (30, 10)
    assert (derived.verify_steps, derived.undrafted_steps) == (40, 0)


def test_a_build_without_these_counters_says_nothing_and_a_page_without_any_is_refused() -> None:
    assert read_metrics(BASE) is None
    with pytest.raises(ProtocolError, match="--metrics"):
        read_metrics("up 1\n")


def test_an_old_build_is_told_by_its_help_and_drafts_with_a_model_only() -> None:
    old = ADAPTER.knowing(EngineFacts(help_text="--draft-max N  number of tokens to draft"))
    given = command("-md", "d.gguf")
    assert old.launch_args(given, SpecConfig.chain("draft_model", 4)) == ("--draft-max", "4")
    assert "--spec-type" in old.check(given, SpecConfig.chain("ngram", 4))
    assert old.check(given, SpecConfig.chain("draft_model", 4)) == ""


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("E srv load_model: failed to load draft model, 'd.gguf'", "missing_draft"),
        ("E srv load_model: failed to load model, 'm.gguf'", "bad_argument"),
        ("E srv init: exiting due to HTTP server error", "port_in_use"),
        ("error: invalid argument: --draft-maximum", "bad_argument"),
        ("ggml_backend_cuda_buffer_type_alloc_buffer: cudaMalloc failed: out of memory", "out_of_memory"),
    ],
)
def test_its_own_words_are_understood(line: str, kind: str) -> None:
    assert ADAPTER.diagnose(ServerTraces(exit_status=1, log_tail=line, was_ready=False)).kind == kind


def test_methods_follow_what_the_command_offers() -> None:
    assert ADAPTER.methods(command()) == ("ngram",)
    assert ADAPTER.methods(command("-md", "d.gguf", "--spec-type", "draft-eagle3"))[0] == "eagle3"


def test_known_bugs_depend_on_slots_and_on_where_drafts_are_sampled() -> None:
    on_cpu = ("--no-spec-draft-backend-sampling",)
    assert ADAPTER.traits(command("-np", "32", *on_cpu), OFF) == {"method:off", "many-slots"}
    head = SpecConfig.chain("eagle3", 2)
    assert "drafts-sampled-together" in ADAPTER.traits(command("-np", "4"), head)
    assert "drafts-sampled-together" in ADAPTER.traits(command(), head)
    assert "drafts-sampled-together" not in ADAPTER.traits(command("-np", "1"), head)
    assert "drafts-sampled-together" not in ADAPTER.traits(command("-np", "4", *on_cpu), head)


def test_why_it_goes_on_without_speculation_is_its_own_line() -> None:
    line = (
        "0.1 E srv load_model: failed to initialize speculative decoding context: draft model is not eagle3"
    )
    assert ADAPTER.refusal(f"model loading\n{line} (expected 3)\nmodel loaded\n") == f"{line} (expected 3)"
