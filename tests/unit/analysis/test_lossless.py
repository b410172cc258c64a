import json
import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from spectune.analysis.lossless import ENOUGH_TOKENS, Lossless, answer_lossless, check_lossless
from spectune.analysis.study_fit import fit_study
from spectune.domain.measurement import LevelMeasurement, ToolCall
from spectune.domain.spec_config import SpecConfig
from spectune.domain.study import NO_PROOF, ProofRule, StudyHistory
from spectune.domain.trial import Completed
from spectune.domain.workload import LoadPlan, PlannedRequest
from spectune.report.proof_text import lossless_text
from spectune.testing.study_values import make_completed, make_confirmed, make_history, make_study

Corrupt = Callable[[list[str]], list[str]]
ONE = {1: 100.0}
WORDS = ("def ", "return ", "self.", "x", "(", ")", ":", "\n", "if ", "in ")


def exact(words: list[str]) -> list[str]:
    return words


def fault(seed: int, *, one_in: int = 1000) -> Corrupt:
    """One emitted token in so many is another one; what follows is as it was."""
    rng = random.Random(seed)
    return lambda words: ["#" if rng.random() < 1 / one_in else word for word in words]


def parting(seed: int, *, one_in: int) -> Corrupt:
    """As floating point does: once in so many tokens an answer takes another way and stays on it."""
    rng = random.Random(seed)

    def corrupt(words: list[str]) -> list[str]:
        place = next((at for at in range(len(words)) if rng.random() < 1 / one_in), len(words))
        return words[:place] + ["~"] * (len(words) - place)

    return corrupt


def answered(completed: Completed, corrupt: Corrupt) -> Completed:
    return replace(completed, levels=tuple(_answered(level, corrupt) for level in completed.levels))


def _answered(level: LevelMeasurement, corrupt: Corrupt) -> LevelMeasurement:
    records = []
    for record in level.records:
        rng = random.Random(f"{level.concurrency} {level.part} {record.index}")
        words = [rng.choice(WORDS) for _ in range(record.output_tokens or 0)]
        records.append(replace(record, output_text="".join(corrupt(words))))
    return replace(level, records=tuple(records))


def history(off: Corrupt, off_again: Corrupt, eagle: Corrupt, *, has_floor: bool = True) -> StudyHistory:
    levels = {1: 100.0, 4: 300.0, 8: 500.0}
    outcomes = [answered(make_completed(1, 0, levels), off), answered(make_completed(2, 2, levels), eagle)]
    if has_floor:
        outcomes.append(answered(make_confirmed(3, 0, {}, {4: 300, 8: 500}), off_again))
    return make_history(make_study(concurrency=(1, 4, 8)), tuple(outcomes))


def check(found: StudyHistory) -> Lossless:
    return check_lossless(found, fit_study(found).measured)


def test_an_exact_engine_is_exact() -> None:
    found = check(history(exact, exact, exact))
    assert (found.verdict, found.why, found.first) == ("exact", "", None)
    assert found.checked_tokens >= ENOUGH_TOKENS
    assert found.total.agreement == 1.0
    assert found.floor.agreement == 1.0


def test_a_fault_in_one_token_of_a_thousand_is_caught() -> None:
    caught = 0
    for seed in range(40):
        found = check(history(exact, exact, fault(seed)))
        caught += found.verdict == "differs" and found.first is not None
    assert caught >= 39  # 10,000 tokens: none is hit once in 30,000 studies


def test_an_exact_engine_beside_an_off_that_wanders_is_within_the_noise_floor() -> None:
    verdicts = [
        check(history(exact, parting(seed, one_in=400), parting(seed + 100, one_in=400))).verdict
        for seed in range(40)
    ]
    assert verdicts.count("within the noise floor") >= 38


def test_more_than_the_noise_floor_differs() -> None:
    found = check(history(exact, parting(1, one_in=3000), parting(2, one_in=100)))
    assert found.verdict == "differs"
    assert found.total.agreement is not None
    assert found.floor.agreement is not None
    assert found.total.agreement < found.floor.agreement


def test_differences_without_a_noise_floor_are_not_judged() -> None:
    found = check(history(exact, exact, fault(1), has_floor=False))
    assert found.verdict == "not checked"
    assert "off was measured once" in found.why


def test_equal_answers_need_no_noise_floor() -> None:
    assert check(history(exact, exact, exact, has_floor=False)).verdict == "exact"


def test_sampled_answers_are_not_checked() -> None:
    found = history(exact, exact, exact)
    workload = replace(found.study.workload, temperature=0.7)
    sampled = replace(found, study=replace(found.study, workload=workload))
    assert check(sampled).why == "answers are sampled at temperature 0.7"


def test_few_tokens_say_nothing() -> None:
    levels = {1: 100.0}
    trials = (make_completed(1, 0, levels), make_completed(2, 2, levels))
    few = tuple(replace(t, levels=(replace(t.levels[0], records=t.levels[0].records[:5]),)) for t in trials)
    found = check(make_history(make_study(concurrency=(1,)), few))
    assert found.verdict == "not checked"
    assert "1000 are needed" in found.why


@pytest.mark.parametrize("num_steps", [0, 2])
def test_one_side_alone_is_not_checked(num_steps: int) -> None:
    alone = make_history(make_study(concurrency=(1,)), (make_completed(1, num_steps, {1: 100}),))
    assert check(alone).verdict == "not checked"
    assert check(alone).arms == ()


def test_broken_json_differs_however_noisy_off_is() -> None:
    """Off wanders and still writes JSON; speculation does not."""
    requests = tuple(
        PlannedRequest(
            index=index,
            path="/v1/chat/completions",
            body=json.dumps({"response_format": {"type": "json_object"}, "temperature": 0}),
            max_tokens=99,
        )
        for index in range(60)
    )
    levels = {1: 100.0}
    texts = [('{"a": 1}',) * 60, ('{"b": 2}',) * 60, ('{"b": 2}',) * 45 + ('{"b": ',) * 15]
    trials = (make_completed(1, 0, levels), make_confirmed(3, 0, {}, levels), make_completed(2, 2, levels))
    outcomes = tuple(_with_texts(trial, text) for trial, text in zip(trials, texts, strict=True))
    plans = (LoadPlan(concurrency=1, warmup=(), requests=requests),)
    found = check(replace(make_history(make_study(concurrency=(1,)), outcomes), plans=plans))
    assert found.verdict == "differs"
    (arm,) = found.arms
    assert arm.arm.config == SpecConfig.chain("eagle", 2)
    assert (arm.valid, arm.valid_off) == ((45, 60), (60, 60))


def test_calls_of_tools_that_do_not_fit_differ_though_off_wanders() -> None:
    trials = (make_completed(1, 0, ONE), make_confirmed(3, 0, {}, ONE), make_completed(2, 2, ONE))
    arguments = [('{"a": 1}',) * 60, ('{"a": 2}',) * 60, ('{"a": 2}',) * 45 + ('{"b": 2}',) * 15]
    outcomes = [_with_calls(trial, texts) for trial, texts in zip(trials, arguments, strict=True)]
    found = check(_offering_tools(*outcomes))
    (arm,) = found.arms
    assert found.verdict == "differs"
    assert (arm.calls, arm.calls_off) == ((45, 60), (60, 60))
    assert (arm.valid, arm.valid_off) == ((45, 60), (60, 60))
    assert "45 of 60 tool calls fit the tools offered, 60 of 60 with off" in lossless_text(found)


def test_calls_within_one_answer_are_not_independent_faults() -> None:
    good, bad = (ToolCall(name="add", arguments=text) for text in ('{"a": 1}', '{"b": 2}'))
    off = _with_calls(make_completed(1, 0, ONE), ('{"a": 1}',) * 60)
    again = _with_calls(make_confirmed(3, 0, {}, ONE), ('{"a": 1}',) * 59 + ('{"a": 2}',))
    eagle = _with_calls(make_completed(2, 2, ONE), ('{"a": 1}',) * 60)
    (level,) = eagle.levels
    records = (*level.records[:59], replace(level.records[59], tool_calls=(good, *(bad,) * 8)))
    eagle = replace(eagle, levels=(replace(level, records=records),))
    (arm,) = (found := check(_offering_tools(off, again, eagle))).arms
    assert (arm.calls, arm.valid) == ((60, 68), (59, 60))
    assert found.verdict == "within the noise floor"


def test_offs_calls_are_counted_once_however_many_arms_are_beside_them() -> None:
    off, *arms = (_with_calls(make_completed(1 + k, k, ONE), ('{"a": 1}',) * 60) for k in range(4))
    found = check(_offering_tools(off, *arms))
    assert (len(found.arms), found.calls_off) == (3, (60, 60))
    assert "180 of 180 tool calls fit the tools offered, 60 of 60 with off" in lossless_text(found)


def test_answers_of_an_older_store_without_calls_do_not_differ_from_new_ones_with_calls() -> None:
    """Off was measured by a version that kept no calls, then the study was resumed."""
    off, again = (
        _without_calls(_with_calls(one, ('{"a": 1}',) * 60))
        for one in (make_completed(1, 0, ONE), make_confirmed(3, 0, {}, ONE))
    )
    eagle = _with_calls(make_completed(2, 2, ONE), ('{"a": 1}',) * 45 + ('{"b": 2}',) * 15)
    (arm,) = (found := check(_offering_tools(off, again, eagle))).arms
    assert (found.verdict, arm.found.differing) == ("exact", 0)
    assert (arm.valid, arm.valid_off, arm.calls, arm.calls_off) == ((0, 0),) * 4


def _offering_tools(*outcomes: Completed) -> StudyHistory:
    tools = [{"type": "function", "function": {"name": "add", "parameters": {"required": ["a"]}}}]
    body = json.dumps({"tools": tools, "temperature": 0})
    requests = tuple(
        PlannedRequest(index=index, path="/v1/chat/completions", body=body, max_tokens=99)
        for index in range(60)
    )
    plans = (LoadPlan(concurrency=1, warmup=(), requests=requests),)
    return replace(make_history(make_study(concurrency=(1,)), outcomes), plans=plans)


def _without_calls(completed: Completed) -> Completed:
    (level,) = completed.levels
    records = tuple(replace(record, tool_calls=None) for record in level.records)
    return replace(completed, levels=(replace(level, records=records),))


def _with_calls(completed: Completed, arguments: tuple[str, ...]) -> Completed:
    (level,) = completed.levels
    records = tuple(
        replace(
            record,
            output_text="",
            finish_reason="tool_calls",
            tool_calls=(ToolCall(name="add", arguments=text),),
        )
        for record, text in zip(level.records, arguments, strict=True)
    )
    return replace(completed, levels=(replace(level, records=records),))


def _with_texts(completed: Completed, texts: tuple[str, ...]) -> Completed:
    (level,) = completed.levels
    records = tuple(
        replace(record, output_text=text, finish_reason="stop")
        for record, text in zip(level.records, texts, strict=True)
    )
    return replace(completed, levels=(replace(level, records=records),))


@pytest.mark.parametrize(
    ("proof", "verdict", "why"),
    [
        (ProofRule(rounds=1, is_lossless=True), "exact", ""),
        (ProofRule(rounds=1), "not checked", "--no-check-lossless was given"),
        (NO_PROOF, "not checked", "it was not asked for"),
    ],
    ids=["asked for", "declined", "an old study"],
)
def test_what_was_not_asked_for_is_not_checked(proof: ProofRule, verdict: str, why: str) -> None:
    found = history(exact, exact, exact)
    asked = replace(found, study=replace(found.study, proof=proof))
    answer = answer_lossless(asked, fit_study(asked).measured)
    assert (answer.verdict, answer.why) == (verdict, why)
