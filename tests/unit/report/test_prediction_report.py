import json

import numpy as np

from spectune.perfmodel.crossovers import Crossover
from spectune.perfmodel.evidence import Cell, Setting
from spectune.perfmodel.fitting import Layout
from spectune.perfmodel.posterior import Posterior
from spectune.perfmodel.prediction import (
    CapacityCost,
    NextMeasurement,
    PredictedCell,
    Prediction,
    Winner,
)
from spectune.report.prediction_report import PredictionPage, prediction_document, prediction_json
from spectune.report.terminal import render_terminal

ONE, FOUR = Setting.chain(1), Setting.chain(4)


def cell(setting: Setting, concurrency: int, tps: float, *, is_measured: bool) -> PredictedCell:
    return PredictedCell(
        cell=Cell(setting=setting, concurrency=concurrency),
        output_tps=tps,
        output_tps_ci=(0.9 * tps, 1.1 * tps),
        is_measured=is_measured,
    )


def page(*, next_step: NextMeasurement | None, warnings: tuple[str, ...] = ()) -> PredictionPage:
    winners = (
        Winner(
            cell=Cell(setting=FOUR, concurrency=1), probability=0.97, expected_loss=0.0004, is_measured=True
        ),
        Winner(
            cell=Cell(setting=ONE, concurrency=64), probability=0.61, expected_loss=0.02, is_measured=False
        ),
    )
    posterior = Posterior(
        cells=(), lasting=np.zeros((1, 0)), measured=np.zeros((1, 0)), theta=np.zeros((1, 9)),
        layout=Layout(groups=(("", 1),)), capacity=(None,),
    )  # fmt: skip
    prediction = Prediction(
        surface=(
            cell(ONE, 1, 122.9, is_measured=True),
            cell(FOUR, 1, 277.0, is_measured=True),
            cell(ONE, 64, 1900.0, is_measured=False),
            cell(FOUR, 64, 1817.0, is_measured=True),
        ),
        winners=winners,
        crossovers=(Crossover(before=FOUR, after=ONE, concurrency=(13, 16), cause="capacity", workload=""),),
        capacity_costs=(
            CapacityCost(
                concurrency=64,
                workload="",
                winner=ONE,
                running=26,
                free_winner=FOUR,
                gain=0.4,
                gain_ci=(0.3, 0.5),
            ),
        ),
        posterior=posterior,
    )
    return PredictionPage(
        name="t.csv", num_rows=3, prediction=prediction, next_step=next_step, warnings=warnings
    )


STEP = NextMeasurement(setting=ONE, concurrency=(64,), value=0.012345678)


def test_json_has_the_documented_shape() -> None:
    data = json.loads(prediction_json(page(next_step=STEP, warnings=("w",))))
    assert data["schema"] == "spectune.prediction/1"
    assert data["ci_level"] == 0.8
    assert data["surface"][2] == {
        "num_steps": 1, "topk": 1, "concurrency": 64, "output_tps": 1900.0, "output_tps_ci": [1710.0, 2090.0],
        "measured": False, "workload": "",
    }  # fmt: skip
    assert data["winners"][0]["num_steps"] == 4
    assert {"concurrency", "num_steps", "probability", "expected_loss"} <= set(data["winners"][0])
    (crossover,) = data["crossovers"]
    assert crossover == {"from": 4, "to": 1, "concurrency": [13, 16], "cause": "capacity", "workload": ""}
    assert data["next"] == {"num_steps": 1, "topk": 1, "concurrency": [64], "value": 0.0123457}
    assert data["warnings"] == ["w"]


def test_predicted_cells_carry_their_mark_and_measured_ones_do_not() -> None:
    text = render_terminal(prediction_document(page(next_step=STEP)))
    assert "*~1900 [1710, 2090]" in text
    assert " 1817 [1635, 1999]" in text
    assert "~1817" not in text
    assert "80% probability" in text


def test_answers_are_said_in_words() -> None:
    text = " ".join(render_terminal(prediction_document(page(next_step=STEP, warnings=("beware",)))).split())
    assert (
        "num_steps 4 → num_steps 1 between concurrency 13 and 16: capacity: requests wait for a slot" in text
    )
    assert (
        "num_steps 1 runs 26 at once; if all ran, num_steps 4 would be best, predicted +40% [+30%, +50%]"
        in text
    )
    assert "Launch num_steps 1 and measure concurrency 64: expected to gain 1.2% of speed" in text
    assert "- beware" in text


def test_nothing_to_measure_is_said() -> None:
    data = json.loads(prediction_json(page(next_step=None)))
    assert data["next"] is None
    assert "Nothing in this grid" in render_terminal(prediction_document(page(next_step=None)))
