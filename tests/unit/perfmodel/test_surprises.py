from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectune.perfmodel.evidence import Evidence
from spectune.perfmodel.priors import DEFAULT_PRIOR
from spectune.perfmodel.surprises import MIN_ROWS, surprise_warnings, surprises
from spectune.testing.known_surface import make_cells, make_evidence, make_truth

CELLS = make_cells((0, 1, 2, 3, 5, 8), (1, 4, 16, 64))


def contaminated(seed: int, index: int, factor: float) -> Evidence:
    """A surface of known truth with 1 % noise, one of whose cells was read wrong."""
    evidence = make_evidence(make_truth(seed), CELLS, noise=0.01, seed=seed)
    rows = list(evidence.speeds)
    rows[index] = replace(rows[index], output_tps=rows[index].output_tps * factor)
    return evidence.with_speeds(tuple(rows))


@pytest.mark.parametrize("factor", [0.6, 1.6])
@pytest.mark.parametrize("index", [5, 10, 14])
def test_a_cell_read_wrong_is_found_alone(index: int, factor: float) -> None:
    evidence = contaminated(1, index, factor)
    (found,) = surprises(evidence, prior=DEFAULT_PRIOR)
    assert found.row == evidence.speeds[index]
    assert (found.deviations > 0) == (factor > 1)
    assert found.expected_tps == pytest.approx(found.row.output_tps / factor, rel=0.12)


@given(st.integers(0, 500))
@settings(max_examples=15, deadline=None)
def test_a_sound_surface_has_no_surprises(seed: int) -> None:
    evidence = make_evidence(make_truth(seed), CELLS, noise=0.01, seed=seed)
    assert surprises(evidence, prior=DEFAULT_PRIOR) == ()


def test_two_cells_read_wrong_are_both_found() -> None:
    evidence = contaminated(2, 6, 0.5)
    rows = list(evidence.speeds)
    rows[17] = replace(rows[17], output_tps=rows[17].output_tps * 0.6)
    found = surprises(evidence.with_speeds(tuple(rows)), prior=DEFAULT_PRIOR)
    assert {one.row for one in found} == {rows[6], rows[17]}


def test_few_rows_tell_nothing() -> None:
    evidence = contaminated(1, 5, 0.3)
    assert surprises(evidence.with_speeds(evidence.speeds[: MIN_ROWS - 1]), prior=DEFAULT_PRIOR) == ()


def test_rows_in_any_order_give_the_same() -> None:
    evidence = contaminated(1, 10, 0.6)
    order = np.random.default_rng(0).permutation(len(evidence.speeds))
    shuffled = evidence.with_speeds(tuple(evidence.speeds[i] for i in order))
    assert surprises(shuffled, prior=DEFAULT_PRIOR) == surprises(evidence, prior=DEFAULT_PRIOR)


def test_the_warning_names_the_cell_and_what_the_others_expect() -> None:
    (warning,) = surprise_warnings(surprises(contaminated(1, 10, 0.6), prior=DEFAULT_PRIOR))
    assert warning.startswith("surprising: num_steps 2, concurrency 16: ")
    assert "where the other cells expect about" in warning
    assert "measure it again" in warning
