import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from spectune.cli import tune
from spectune.cli.kept_container import KeptContainer
from spectune.cli.kept_server import KeptServer
from spectune.cli.lending import downtime_spent_s
from spectune.cli.service_options import ContainerPlace, UnitPlace
from spectune.cli.tune_options import parse_tune_options
from spectune.cli.wiring import PreparedStudy, open_store
from spectune.domain.study import ProofRule, SearchRule, Study
from spectune.engines.embedded import EmbeddedAdapter
from spectune.errors import ConfigError
from spectune.launch.container_text import read_container
from spectune.launch.docker_service import DockerService
from spectune.launch.host import Host
from spectune.launch.local_host import LocalHost
from spectune.launch.memory import MemoryReader, nothing_read
from spectune.launch.nvml import Gpu
from spectune.launch.systemd_service import SystemdService
from spectune.launch.systemd_unit import Unit
from spectune.launch.visible_gpus import Visible, is_visible
from spectune.storage.sqlite_store import SqliteStore
from spectune.testing.fake_docker import inspected
from spectune.testing.study_values import make_completed, make_history, make_study
from spectune.workloads.request_file import request_file_pool


class Kept:
    """A kept server that only tells how long it was lent for."""

    def __init__(self) -> None:
        self.service = SimpleNamespace(host=LocalHost())
        self.environment: dict[str, str] = {}
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


def kept_unit(*environment: tuple[str, str]) -> KeptServer:
    """A unit of this machine with these variables."""
    terms = parse_tune_options(["--unit", "llm", "--num-steps", "0,1"]).service
    assert terms is not None
    assert isinstance(terms.place, UnitPlace)
    name = terms.place.name
    unit = Unit(name=name, properties=(), exec_start="/bin/spectune serve", environment=environment)
    service = SystemdService(LocalHost(), name)
    return KeptServer(
        terms=terms, place=terms.place, service=service, unit=unit, adapter=EmbeddedAdapter(), before=""
    )


def kept_container(*environment: tuple[str, str]) -> KeptContainer:
    """A container of this machine with these variables."""
    terms = parse_tune_options(["--docker", "llm", "--num-steps", "0,1"]).service
    assert terms is not None
    assert isinstance(terms.place, ContainerPlace)
    definition = inspected("llm", ("spectune", "serve"), env=tuple(map("=".join, environment)))
    return KeptContainer(
        terms=terms,
        place=terms.place,
        service=DockerService(LocalHost(), "llm"),
        container=read_container(json.dumps([definition])),
        adapter=EmbeddedAdapter(),
        before="",
    )


@pytest.mark.parametrize("keep", [kept_unit, kept_container])
def test_memory_is_read_of_the_gpus_that_a_kept_servers_own_environment_names(
    keep: Callable[..., KeptServer | KeptContainer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Visible] = []

    def reader_of(host: Host, visible: Visible) -> MemoryReader:
        assert host.is_local
        seen.append(visible)
        return nothing_read

    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    monkeypatch.setattr(tune, "reader_of", reader_of)
    store, prepared = open_store(str(tmp_path / "studies.db")), resumed(None)
    for environment in ((), (("A", "1"), ("CUDA_VISIBLE_DEVICES", "2,3"))):
        kept = keep(*environment)
        monkeypatch.setattr(type(kept), "borrowed", lambda *_: nullcontext())
        with tune._keeping(prepared, store, kept):
            pass
    assert seen == [None, ("2", "3")]


class Elsewhere(LocalHost):
    """Another machine."""

    is_local = False


def test_a_studys_record_names_this_machines_gpus_only_where_its_servers_run_here(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def read_gpus(visible: Visible) -> tuple[Gpu, ...]:
        gpus = [Gpu(index=i, name=f"G{i}", driver="1", free_bytes=1, total_bytes=1) for i in range(4)]
        return tuple(gpu for gpu in gpus if is_visible(visible, gpu.index, ""))

    monkeypatch.setattr("spectune.cli.machine.read_gpus", read_gpus)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    begun: list[PreparedStudy] = []

    def plan_study(prepared: PreparedStudy) -> None:
        begun.append(prepared)
        raise ConfigError("far enough")

    monkeypatch.setattr(tune, "plan_study", plan_study)
    here = kept_unit(("CUDA_VISIBLE_DEVICES", "2,3"))
    there = replace(here, service=SystemdService(Elsewhere(), here.unit.name))
    options = replace(
        parse_tune_options(["--unit", "llm", "--num-steps", "0,1"]), command=("spectune", "serve")
    )
    for kept in (None, here, there):
        with pytest.raises(ConfigError, match="far enough"):
            tune._tune(options, cast("SqliteStore", None), kept)
    assert [prepared.study.environment.gpus for prepared in begun] == [
        ("G0, driver 1",),
        ("G2, driver 1", "G3, driver 1"),
        (),
    ]
