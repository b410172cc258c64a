from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from spectune.cli import tune
from spectune.cli.lending import downtime_spent_s
from spectune.cli.wiring import PreparedStudy, open_store
from spectune.domain.study import ProofRule, SearchRule, Study
from spectune.engines.embedded import EmbeddedAdapter
from spectune.errors import ConfigError
from spectune.launch.local_host import LocalHost
from spectune.testing.study_values import make_completed, make_history, make_study
from spectune.workloads.request_file import request_file_pool


class Kept:
    """A kept server that only tells how long it was lent for."""

    def __init__(self) -> None:
        self.service = SimpleNamespace(host=LocalHost())
        self.limits: list[float | None] = []

    @contextmanager
    def borrowed(self, study_id: str, log_folder: Path, max_downtime_s: float | None) -> Iterator[None]:
        assert study_id in str(log_folder)
        self.limits.append(max_downtime_s)
        yield None


def resumed(max_downtime_s: float | None) -> PreparedStudy:
    study = replace(make_study(), search=SearchRule(kind="model", max_downtime_s=max_downtime_s))
    pool = request_file_pool('{"prompt": "x", "max_tokens": 4, "temperature": 0}\n', name="prompts")
    history = make_history(study, (make_completed(1, 0, {1: 50.0, 8: 200.0}),), finished="")
    return PreparedStudy(
        study=study, command=study.command, adapter=EmbeddedAdapter(), pool=pool, resumed=history
    )


def test_a_resumed_study_keeps_its_downtime_limit_less_what_it_spent(tmp_path: Path) -> None:
    kept, prepared = Kept(), resumed(1800.0)
    assert prepared.resumed is not None
    store = open_store(str(tmp_path / "studies.db"))
    with tune._keeping(prepared, store, cast("tune.Kept", kept)):
        pass
    assert kept.limits == [pytest.approx(1800.0 - downtime_spent_s(prepared.resumed.outcomes))]
    with (
        pytest.raises(ConfigError, match="is left` must hold"),
        tune._keeping(resumed(1.0), store, cast("tune.Kept", kept)),
    ):
        pass
    with tune._keeping(resumed(None), store, cast("tune.Kept", kept)):
        pass
    assert kept.limits[1:] == [None]


def with_levers(*levers: str, is_lossless: bool) -> Study:
    study = replace(make_study(), engine="sglang", proof=ProofRule(is_lossless=is_lossless))
    return replace(study, space=replace(study.space, levers=("", *levers)))


def test_the_plan_notes_a_lever_that_changes_the_models_numbers() -> None:
    levers = ("--max-running-requests 4", "--mamba-ssm-dtype bfloat16")
    (note,) = tune._lever_notes(with_levers(*levers, is_lossless=True))
    assert "'--mamba-ssm-dtype bfloat16' changes the model's numbers (--mamba-ssm-dtype)" in note
    assert "the lossless check will show" in note
    (note,) = tune._lever_notes(with_levers(*levers, is_lossless=False))
    assert "is not asked for" in note
    assert tune._lever_notes(with_levers(levers[0], is_lossless=True)) == ()
