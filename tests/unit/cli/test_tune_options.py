import pytest

from spectune.cli import tune_options
from spectune.cli.stored_study import NEWEST
from spectune.cli.tune_options import parse_tune_options
from spectune.errors import ConfigError


def test_with_nothing_given_the_embedded_engine_is_searched_within_the_default_budget() -> None:
    options = parse_tune_options([])
    assert (options.command, options.num_steps, options.concurrency) == ((), None, (1, 4, 16, 32))
    assert (options.budget_s, options.workload, options.topk) == (200.0, "python-code", 1)


def test_what_follows_the_dashes_is_the_serve_command_word_for_word() -> None:
    options = parse_tune_options(["--budget", "9", "--", "spectune", "serve", "--port", "1", "--", "--json"])
    assert options.command == ("spectune", "serve", "--port", "1", "--", "--json")
    assert (options.budget_s, options.json_file) == (9.0, "")


def test_lists_are_read() -> None:
    options = parse_tune_options(["--num-steps", "0..2,5", "--concurrency", "8,1"])
    assert (options.num_steps, options.concurrency) == ((0, 1, 2, 5), (1, 8))


def test_resume_takes_a_study_or_the_newest() -> None:
    assert parse_tune_options(["--resume"]).resume == NEWEST
    assert parse_tune_options(["--resume", "abc", "--json", "-"]).resume == "abc"


def test_thorough_has_no_budget() -> None:
    assert parse_tune_options(["--thorough"]).budget_s is None


def test_the_llama_cpp_door_has_levels_of_its_own() -> None:
    options = parse_tune_options(["--engine", "llamacpp", "--model", "m.gguf"])
    assert (options.engine, options.model, options.concurrency) == ("llamacpp", "m.gguf", (1, 4))
    assert options.search.kind == "grid"
    assert parse_tune_options(["--engine", "llamacpp", "--concurrency", "2"]).concurrency == (2,)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--frobnicate"], "unrecognized arguments: --frobnicate"),
        (["--num-step", "3"], "--num-step"),
        (["extra"], "unrecognized arguments: extra"),
        (["--num-steps", "-1"], "--num-steps"),
        (["--concurrency", "0"], "--concurrency"),
        (["--method", "magic"], "--method"),
        (["--topk", "0"], "--topk"),
        (["--num-draft-tokens", "4"], "topk is 1"),
        (["--budget", "0"], "--budget"),
        (["--budget", "5", "--thorough"], "--budget or --thorough"),
        (["--json"], "--json"),
        (["--"], "a serve command must follow"),
        (["--resume", "x", "--seed", "1"], "--seed"),
        (["--resume", "x", "--thorough"], "--thorough"),
        (["--seed", "3", "--workload", "x.jsonl"], "--seed"),
        (["--engine", "magic"], "--engine"),
        (["--engine", "llamacpp", "--", "spectune", "serve"], "--engine"),
        (["--model", "m.gguf"], "--model"),
        (["--resume", "x", "--engine", "llamacpp"], "--engine"),
        (["--resume", "x", "--no-schedule"], "--schedule"),
        (["--resume", "x", "--no-check-lossless"], "--check-lossless"),
        (["--resume", "x", "--check-lossless"], "--check-lossless"),
    ],
)
def test_wrong_options_are_named(words: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_tune_options(words)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_lever_without_a_flag_is_told_in_the_users_words() -> None:
    with pytest.raises(ConfigError, match="`--lever has a value` must hold, it is empty"):
        parse_tune_options(["--lever", ""])


@pytest.mark.parametrize(
    "flag",
    ["--num-steps", "--concurrency", "--seed", "--budget", "--tolerance", "--max-downtime", "--methods",
     "--engine", "--search", "--mix", "--slo", "--confirm", "--window", "--frobnicate"],
)  # fmt: skip
def test_a_long_value_is_not_told_whole(flag: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_tune_options([flag, "x" * 5000])
    assert len(str(caught.value)) < 600


def test_the_model_searches_unless_the_user_names_the_settings() -> None:
    assert parse_tune_options([]).search.kind == "model"
    assert parse_tune_options(["--num-steps", "0,2"]).search.kind == "grid"
    assert parse_tune_options(["--topk", "2"]).search.kind == "grid"
    assert parse_tune_options(["--num-steps", "0..8", "--search", "model"]).search.kind == "model"


def test_the_models_limits_are_read_with_their_units() -> None:
    rule = parse_tune_options(["--tolerance", "2%", "--max-launches", "4", "--max-downtime", "30m"]).search
    assert (rule.tolerance, rule.max_launches, rule.max_downtime_s) == (0.02, 4, 1800.0)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--search", "grid", "--tolerance", "1%"], "it belongs to --search model"),
        (["--search", "model", "--topk", "2"], "topk is 1"),
        (["--tolerance", "150%"], "a share such as"),
        (["--max-downtime", "soon"], "a time such as"),
        (["--max-launches", "0"], "--max-launches"),
        (["--resume", "x", "--max-launches", "3"], "question it began with"),
    ],
)
def test_bad_search_options_name_the_rule(words: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_tune_options(words)


def test_methods_are_one_or_several_known_ones() -> None:
    assert parse_tune_options([]).methods == ()
    assert parse_tune_options(["--method", "ngram"]).methods == ("ngram",)
    assert parse_tune_options(["--methods", "eagle, ngram"]).methods == ("eagle", "ngram")


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        (("--methods", "eagle,eagle"), "once"),
        (("--methods", "eagle,lookahead"), "lookahead"),
        (("--method", "eagle,ngram"), "--method: "),
        (("--methods", "eagle", "--method", "eagle"), "both were given"),
    ],
)
def test_other_methods_are_refused(words: tuple[str, ...], rule: str) -> None:
    with pytest.raises(ConfigError, match=rule):
        parse_tune_options(words)


def test_levers_are_kept_as_texts_and_belong_to_the_model_search() -> None:
    words = ["--lever", "--max-running-requests 24", "--lever", "--max-running-requests 8"]
    options = parse_tune_options(words)
    assert options.levers == ("--max-running-requests 24", "--max-running-requests 8")
    with pytest.raises(ConfigError, match="it belongs to --search model"):
        parse_tune_options([*words, "--search", "grid"])


def test_a_lever_of_one_word_is_no_option_of_ours() -> None:
    words = ["--lever", "--disable-radix-cache", "--lever", "--max-running-requests=24", "--yes"]
    assert parse_tune_options(words).levers == ("--disable-radix-cache", "--max-running-requests=24")
    with pytest.raises(ConfigError, match="--lever: expected one argument"):
        parse_tune_options(["--lever"])


def test_switches_that_were_not_written_are_not_given() -> None:
    assert parse_tune_options([]).given == frozenset()
    assert parse_tune_options(["--no-schedule", "--yes"]).given == {"schedule", "yes"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--resume", "x"], "question it began with"),
        (["--seed", "3", "--workload", "x.jsonl"], "--seed"),
        (["--engine", "llamacpp", "--", "spectune", "serve"], "--engine"),
        (["--slo", "ttft=1s"], "--slo"),
        (["--workload", "missing.jsonl"], "--workload missing.jsonl"),
    ],
)
def test_no_server_is_watched_for_a_mix_while_another_option_is_wrong(
    words: list[str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched: list[str] = []

    def watch(text: str, clock: object) -> tuple[tuple[int, float], ...]:
        del clock
        watched.append(text)
        return ((2, 1.0),)

    monkeypatch.setattr(tune_options, "load_mix", watch)
    with pytest.raises(ConfigError, match=message):
        parse_tune_options(["--mix", "http://localhost:1", *words])
    assert watched == []
    options = parse_tune_options(["--mix", "http://localhost:1"])
    assert (options.concurrency, options.proof.mix) == ((2,), ((2, 1.0),))
    assert watched == ["http://localhost:1"]
