import pytest

from spectune.engines.yaml_arguments import file_arguments
from spectune.errors import ConfigError


def test_values_become_the_words_that_the_engines_make_of_them() -> None:
    text = """
# a comment
model-path: "org/model name"
tp-size: 4
enable-metrics: true
disable-radix-cache: false
cuda-graph-bs: [1, 2]
empty: []
speculative-config:
  method: mtp
  num_speculative_tokens: 2
"""
    assert file_arguments(text, "c.yaml") == (
        ("--model-path", "org/model name"),
        ("--tp-size", "4"),
        ("--enable-metrics",),
        ("--cuda-graph-bs", "1", "2"),
        ("--speculative-config", '{"method": "mtp", "num_speculative_tokens": 2}'),
    )


def test_an_empty_file_has_no_flags() -> None:
    assert file_arguments("# nothing\n", "c.yaml") == ()


@pytest.mark.parametrize("text", ["a: [1", "- 1\n- 2", "just text", "1: 2", "a: !!python/object:os.x {}"])
def test_what_is_no_mapping_of_flags_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"c\.yaml"):
        file_arguments(text, "c.yaml")
