import pytest

from spectune.llama_server.options import parse_options


def test_llama_servers_own_spellings_are_taken() -> None:
    options = parse_options(
        ["-m", "m.gguf", "-np", "2", "-c", "4096", "-t", "1", "--metrics", "--spec-type", "ngram-simple",
         "--spec-ngram-simple-size-n", "2", "--spec-ngram-simple-size-m", "4", "--no-cache-prompt"]
    )  # fmt: skip
    assert (options.model, options.parallel, options.ctx_size) == ("m.gguf", 2, 4096)
    assert (options.spec_type, options.ngram_size_n, options.ngram_size_m) == ("ngram-simple", 2, 4)
    assert options.has_metrics
    assert not options.has_prompt_cache


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["--frobnicate"], "--frobnicate"),
        (["--port", "x"], "--port"),
        (["--parallel", "0"], "--parallel"),
        (["--spec-type", "magic"], "--spec-type"),
        (["--spec-type", "draft-simple"], "--spec-draft-model"),
        (["--spec-draft-n-max", "0"], "--spec-draft-n-max"),
        (["--spec-draft", "m"], "--spec-draft"),  # no abbreviations
    ],
)
def test_what_is_wrong_ends_with_status_2_and_its_name(
    words: list[str], part: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse_options(words)
    assert ended.value.code == 2
    assert part in capsys.readouterr().err
