import json
from itertools import islice

import pytest

from spectune.errors import ConfigError
from spectune.workloads.prompts import python_code_pool

SOURCE = "\n".join(f"def f{n}(value):\n    total = value * {n}\n\n    return total\n" for n in range(400))
JSONL = "\n".join(json.dumps({"path": f"{name}.py", "text": f"import {name}\n{SOURCE}"}) for name in "ab")


def test_the_same_seed_gives_the_same_requests_and_another_does_not() -> None:
    assert python_code_pool(JSONL, seed=1) == python_code_pool(JSONL, seed=1)
    assert python_code_pool(JSONL, seed=1).spec.digest != python_code_pool(JSONL, seed=2).spec.digest


def test_prompts_are_distinct_whole_lines_of_mixed_length() -> None:
    pool = python_code_pool(JSONL, num_prompts=300)
    texts = [json.loads(prompt.body)["prompt"] for prompt in pool.prompts]
    assert len(set(texts)) == len(texts) == pool.spec.num_prompts == 300
    assert all(100 <= len(text) <= 900 for text in texts)
    assert all(f"\n{text}" in f"\n{SOURCE}\n" or text.startswith("import") for text in texts)
    assert min(map(len, texts)) < 150
    assert max(map(len, texts)) > 700


def test_answers_are_greedy_of_mixed_length_and_may_end_early() -> None:
    bodies = [json.loads(prompt.body) for prompt in python_code_pool(JSONL, num_prompts=300).prompts]
    limits = [body["max_tokens"] for body in bodies]
    assert (min(limits) >= 48, max(limits) <= 160, 90 < sum(limits) / 300 < 102) == (True, True, True)
    assert all(body["temperature"] == 0 and "ignore_eos" not in body for body in bodies)


def test_fewer_prompts_are_given_when_the_text_is_short() -> None:
    short = json.dumps({"path": "x", "text": "\n".join(islice(SOURCE.splitlines(), 40))})
    assert 0 < python_code_pool(short).spec.num_prompts < 40


@pytest.mark.parametrize("jsonl", ["", "not json", '{"path": "x"}', '{"text": ""}'])
def test_malformed_text_is_refused(jsonl: str) -> None:
    with pytest.raises(ConfigError, match="python-code"):
        python_code_pool(jsonl)
