from dataclasses import replace

from spectune.analysis.answers import answer
from spectune.report.why import level_sentences, why
from spectune.testing.proved_study import proved_study
from spectune.testing.study_values import SpeedTable, history_of


def reason(speeds: SpeedTable) -> str:
    found = answer(history_of(speeds), lambda _config: ()).recommendation
    assert found is not None
    return why(found)


def test_it_names_speedups_tokens_per_step_and_step_time() -> None:
    text = reason({0: {1: 100, 16: 800}, 2: {1: 160, 16: 960}})
    assert "eagle 2 is the fastest over the levels: 1.60× at 1 and 1.20× at 16, against off." in text
    assert "At 1 a step makes 2.03 tokens per request and takes 12.5 ms, 1.25× of the 10.0 ms" in text
    assert "At 16 a step makes" in text


def test_off_is_said_plainly_with_what_speculation_costs() -> None:
    text = reason({0: {1: 100}, 1: {1: 80}, 2: {1: 70}})
    assert text.startswith(
        "Off wins: speculation does not pay here. The best setting with it, eagle 1, runs at 0.80×"
    )
    assert "a step makes 1.53 tokens per request" in text


def test_where_speculation_pays_is_said_even_when_off_wins_over_all_levels() -> None:
    text = reason({0: {1: 100, 4: 400, 16: 1000}, 1: {1: 130, 4: 380, 16: 600}})
    assert text.startswith("Off is the fastest over all levels together, though speculation pays at 1. ")
    assert "The best setting with it, eagle 1, runs at 1.30× at 1, 0.95× at 4 and 0.60× at 16" in text


def test_losses_at_other_levels_are_admitted() -> None:
    text = reason({0: {1: 100, 16: 1000}, 2: {1: 200, 16: 900}})
    assert "It stays below the level's own best by 10% at 16." in text


def test_a_tie_is_said_to_be_one() -> None:
    assert "eagle 2 is within 1% of the fastest over the level, with fewer steps: 2.00× at 1" in reason(
        {0: {1: 100}, 2: {1: 199.5}, 3: {1: 200}}
    )


def test_without_off_no_speedup_is_claimed() -> None:
    assert "off was not measured" in reason({1: {1: 100}, 2: {1: 150}})


def test_off_alone_says_that_nothing_else_could_be_measured() -> None:
    assert "No setting with speculation could be measured" in reason({0: {1: 100}})


def test_each_level_says_what_its_speed_is_made_of_and_what_keeps_requests_waiting() -> None:
    found = answer(proved_study(), lambda _: ()).recommendation
    assert found is not None
    sentences = level_sentences(found)
    assert sorted(sentences, key=int) == ["1", "4", "16", "32"]
    assert sentences["1"].startswith("At 1: 1.0 running × 1.53 tokens per step ÷ 10.0 ms = 150.0 tok/s.")
    crowded = replace(found.levels[-1], running=16.8, capacity=17, ttft_s=3.4, off_ttft_s=0.9)
    (text,) = level_sentences(replace(found, levels=(crowded,))).values()
    assert "The server runs 17 of the 32, because it holds no more than 17 at once: 3400 ms to the" in text
    assert "Drafting and verifying are" in text


def test_a_level_without_counters_has_no_sentence() -> None:
    found = answer(proved_study(), lambda _: ()).recommendation
    assert found is not None
    assert level_sentences(replace(found, levels=(replace(found.levels[0], step_s=None),))) == {}
