from dataclasses import replace

import numpy as np
import pytest

from spectune.analysis.prompt_noise import covariance, half_contrasts, num_common
from spectune.testing.study_values import make_level


def test_the_covariance_of_equal_cells_cancels_in_their_difference() -> None:
    level = make_level(4, 400, noise=0.2, seed=1)
    found = covariance([level, level])
    assert found[0, 0] + found[1, 1] - 2 * found[0, 1] == pytest.approx(0, abs=1e-15)
    assert found[0, 0] > 0


def test_the_variance_is_that_of_many_drawn_levels() -> None:
    levels = [make_level(1, 100, noise=0.1, seed=seed) for seed in range(300)]
    logs = [np.log(sum(r.output_tokens or 0 for r in level.records) / level.wall_s) for level in levels]
    assert float(covariance(levels[:1])[0, 0]) ** 0.5 == pytest.approx(float(np.std(logs)), rel=0.3)


def test_prompts_that_one_cell_did_not_answer_are_not_common() -> None:
    whole = make_level(4, 400, num_requests=20)
    failed = replace(whole.records[3], error="reset", output_tokens=None)
    part = replace(whole, records=(*whole.records[:3], failed, *whole.records[4:]))
    assert num_common([whole, part]).tolist() == [[20, 19], [19, 19]]


def test_halves_show_a_level_that_slowed_down_half_way() -> None:
    steady = make_level(1, 100, num_requests=20)
    records = [
        replace(r, ended_at_s=r.sent_at_s + (1.2 if r.index >= 10 else 1) * (r.ended_at_s - r.sent_at_s))
        for r in steady.records
    ]
    found = half_contrasts([steady, replace(steady, records=tuple(records))])
    assert found is not None
    assert found[0][1] - found[0][0] == pytest.approx(np.log(1.2))
    assert found[1].shape == (2, 2)


def test_too_few_prompts_have_no_halves() -> None:
    assert half_contrasts([make_level(1, 100, num_requests=9)]) is None


def test_a_ramps_requests_weigh_by_their_share_of_the_wall_time() -> None:
    """Requests in flight together share the wall time, so each moves the speed by less."""
    crowded = make_level(8, 800, num_requests=40, noise=0.2, seed=3)
    alone = make_level(1, 100, num_requests=40, noise=0.2, seed=3)
    both = [replace(level, part="ramp") for level in (crowded, alone)]
    values = [float(covariance([level])[0, 0]) for level in both]
    assert values[0] == pytest.approx(values[1], rel=0.2)
