import math
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest

from spectune.analysis.launches import by_level, measured_levels, ramps
from spectune.analysis.noise import LAUNCH_DEGREES, LAUNCH_SD, Noise, estimate_noise, idiosyncratic
from spectune.domain.trial import Completed
from spectune.testing.study_values import make_completed, make_confirmed, make_history, make_level, make_study


def noise_of(outcomes: Iterable[Completed]) -> Noise:
    history = make_history(make_study(concurrency=(4,)), tuple(outcomes))
    return estimate_noise(by_level(measured_levels(history)).values())


def test_one_launch_of_each_setting_leaves_the_prior() -> None:
    found = noise_of([make_completed(1, 0, {4: 100}), make_completed(2, 1, {4: 150})])
    assert found.launch_sd == pytest.approx(LAUNCH_SD)
    assert (found.launch_degrees, found.num_repeats) == (LAUNCH_DEGREES, 0)
    assert found.drift is None


def test_two_launches_that_agree_exactly_are_not_taken_for_certainty() -> None:
    found = noise_of([make_completed(1, 1, {4: 150}), make_confirmed(2, 1, {}, {4: 150})])
    assert found.num_repeats == 1
    assert 0.9 * LAUNCH_SD < found.launch_sd < LAUNCH_SD


def test_many_launches_outweigh_the_prior() -> None:
    rng = np.random.default_rng(2)
    speeds = [100 * math.exp(rng.normal(0, 0.04)) for _ in range(60)]
    outcomes = [make_completed(1, 1, {4: speeds[0]})]
    outcomes += [make_confirmed(n, 1, {}, {4: speed}) for n, speed in enumerate(speeds[1:], 2)]
    found = noise_of(outcomes)
    assert found.num_repeats == 59
    assert found.launch_sd == pytest.approx(0.04, rel=0.2)


def test_several_levels_of_the_same_two_launches_count_once() -> None:
    found = noise_of(
        [make_completed(1, 1, {1: 50, 4: 150}), make_confirmed(2, 1, {}, {1: 52, 4: 156})],
    )
    assert found.num_repeats == 1


def test_a_machine_that_slows_down_shows_as_drift() -> None:
    early = [make_completed(k + 1, k, {4: 100 + 30 * k}) for k in range(4)]
    late = [make_confirmed(k + 5, k, {}, {4: 0.9 * (100 + 30 * k)}) for k in range(4)]
    drift = noise_of([*early, *late]).drift
    assert drift is not None
    assert drift.ratio == pytest.approx(0.9, rel=0.01)
    assert drift.is_clear
    assert drift.num_arms == 4


def test_launches_that_differ_either_way_are_no_drift() -> None:
    early = [make_completed(k + 1, k, {4: 100 + 30 * k}) for k in range(4)]
    late = [make_confirmed(k + 5, k, {}, {4: (1 + 0.02 * (-1) ** k) * (100 + 30 * k)}) for k in range(4)]
    drift = noise_of([*early, *late]).drift
    assert drift is not None
    assert not drift.is_clear


def test_prompt_noise_leaves_out_what_the_prompts_have_in_common() -> None:
    common = np.full((3, 3), 4.0)
    assert idiosyncratic(common + np.diag([1.0, 1.0, 1.0])) == pytest.approx([1.0, 1.0, 1.0])
    assert idiosyncratic(np.array([[5.0]])) == pytest.approx([5.0])


def test_levels_that_run_evenly_have_little_block_noise() -> None:
    found = noise_of([make_completed(1, 0, {4: 100}), make_completed(2, 1, {4: 150})])
    assert found.block_sd is not None
    assert found.block_sd < 0.01


def test_a_ramp_tells_nothing_of_the_time_within_a_launch() -> None:
    arms = [make_completed(1, 0, {4: 100}), make_completed(2, 1, {4: 150})]
    uneven = make_level(4, 100, num_requests=60)
    half = [
        replace(r, ended_at_s=r.sent_at_s + (2.0 if r.index > 30 else 1.0) * (r.ended_at_s - r.sent_at_s))
        for r in uneven.records
    ]
    loads = (make_level(4, 150, part="ramp"), replace(uneven, records=tuple(half), part="ramp"))
    ramped = [replace(o, levels=(*o.levels, load)) for o, load in zip(arms, loads, strict=True)]
    history = make_history(make_study(concurrency=(4,)), tuple(ramped))
    measured = measured_levels(history)
    found = estimate_noise([*by_level(measured).values(), *ramps(measured).values()])
    assert found.block_sd is not None
    assert found.block_sd < 0.01


def test_levels_that_the_same_launches_share_add_no_degrees_of_freedom() -> None:
    once = [make_completed(1, 1, {4: 150}), make_confirmed(2, 1, {}, {4: 156})]
    more = [once[0], make_confirmed(2, 1, {4: 140}, {4: 156}), make_confirmed(3, 1, {4: 143}, {4: 153})]
    assert (noise_of(once).num_repeats, noise_of(more).num_repeats) == (1, 2)
