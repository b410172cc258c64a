import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.domain.spec_config import OFF, SpecConfig
from spectune.errors import ConfigError


@given(st.integers(min_value=0, max_value=20))
def test_a_chain_verifies_its_drafts_and_the_root(num_steps: int) -> None:
    config = SpecConfig.chain("eagle", num_steps)
    assert config.num_draft_tokens == num_steps + 1
    assert config.is_off == (num_steps == 0)


def test_a_chain_of_no_steps_is_off_whatever_the_method() -> None:
    assert SpecConfig.chain("ngram", 0) == OFF


@pytest.mark.parametrize(
    ("values", "rule"),
    [
        (("eagle", -1, 1, 0), "num_steps >= 0"),
        (("eagle", 2, 0, 3), "topk >= 1"),
        (("off", 2, 1, 3), "off exactly when"),
        (("eagle", 0, 1, 1), "off exactly when"),
        (("eagle", 3, 1, 8), "num_steps [+] 1 when topk is 1"),
        (("eagle", 3, 2, 3), "num_steps < num_draft_tokens"),
        (("eagle", 2, 2, 8), "num_draft_tokens <= 7"),
    ],
)
def test_impossible_settings_are_refused_with_the_rule(values: tuple[str, int, int, int], rule: str) -> None:
    method, num_steps, topk, num_draft_tokens = values
    with pytest.raises(ConfigError, match=rule):
        SpecConfig(method=method, num_steps=num_steps, topk=topk, num_draft_tokens=num_draft_tokens)


def test_labels_tell_settings_apart() -> None:
    tree = SpecConfig(method="eagle", num_steps=3, topk=2, num_draft_tokens=6)
    labels = [OFF.label, SpecConfig.chain("eagle", 3).label, tree.label]
    assert labels == ["off", "eagle 3", "eagle 3 topk 2 draft 6"]
