from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from spectune.cli import apply, kept_server
from spectune.cli.kept_server import KeptServer
from spectune.cli.recommended import Wanted
from spectune.cli.service_options import ServiceTerms, UnitPlace, read_terms
from spectune.domain.command import Command
from spectune.domain.spec_config import SpecConfig
from spectune.engines.sglang import SglangAdapter
from spectune.errors import EngineNotReady
from spectune.launch.give_back import Prove
from spectune.launch.local_host import LocalHost
from spectune.launch.persistent import PersistentChange
from spectune.launch.systemd_service import SystemdService
from spectune.launch.systemd_unit import Unit
from spectune.testing.proved_study import SCHEDULE
from spectune.tuning import service_proof
from spectune.tuning.service_proof import write_down

RECORDED = Path(__file__).parents[2] / "transcripts" / "sglang-0.5.17" / "adaptive"
INFO = (RECORDED / "server_info.json").read_text("utf-8")
WORDS = ["s", "--unit", "llm", "--schedule", "--yes", "--allow-live"]
EXEC_START = (
    "/bin/python -m sglang.launch_server --model-path m --speculative-algorithm EAGLE3 "
    "--speculative-draft-model-path d"
)


@pytest.fixture
def unit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KeptServer:
    """A unit whose SGLang follows a schedule by a file, whatever is done; `apply` is cut off from systemd."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    terms = read_terms(apply._parser().read(WORDS))
    assert isinstance(terms, ServiceTerms)
    assert isinstance(terms.place, UnitPlace)
    name = terms.place.name
    properties = (("Id", name.full), ("ActiveState", "active"))
    found = Unit(name=name, properties=properties, exec_start=EXEC_START)
    adapter = SglangAdapter()
    before = adapter.read_settings(found.command, (INFO,), "")
    kept = KeptServer(
        terms=terms,
        place=terms.place,
        service=SystemdService(LocalHost(), name),
        unit=found,
        adapter=adapter,
        before=write_down(before),
    )

    @contextmanager
    def looked_at(*_: object) -> Iterator[KeptServer]:
        yield kept

    def look(adapter: SglangAdapter, command: Command, *_: object) -> object:
        return adapter.read_settings(command, (INFO,), "")

    def apply_change(session: object, change: PersistentChange, prove: Prove, clock: object) -> str:
        del session, change, clock
        return prove()

    store = SimpleNamespace(path=tmp_path / "s.db", history=lambda study: study)
    journal = SimpleNamespace(header=SimpleNamespace(id="x"), release=lambda: None)
    server = SimpleNamespace(log_text=lambda: "")
    fakes: dict[str, object] = {
        "open_store": lambda _: store,
        "study_named": lambda *_: "s",
        "looked_at": looked_at,
        "answers_of": lambda history: history,
        "change_to": lambda *_: PersistentChange(path="/etc/x", before="", after="new\n"),
        "new_header": lambda *_, **__: journal.header,
        "Journal": SimpleNamespace(begin=lambda *_: journal),
        "open_session": lambda *_: SimpleNamespace(give_back=lambda prove: prove()),
        "apply_change": apply_change,
        "server_of": lambda *_: server,
    }
    for key, fake in fakes.items():
        monkeypatch.setattr(apply, key, fake)
    monkeypatch.setattr(kept_server, "server_of", fakes["server_of"])
    monkeypatch.setattr(service_proof, "look", look)
    monkeypatch.setattr(SystemdService, "unit", lambda _: found)
    return kept


def want(monkeypatch: pytest.MonkeyPatch, num_steps: int) -> None:
    wanted = Wanted(config=SpecConfig.chain("eagle3", num_steps), schedule=SCHEDULE)
    monkeypatch.setattr(apply, "recommended_schedule", lambda _: wanted)


def test_a_schedule_that_is_not_proven_is_given_back_by_what_was_read_before(
    unit: KeptServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    want(monkeypatch, num_steps=3)  # the server says 4
    with pytest.raises(EngineNotReady, match="it runs eagle3 3"):
        apply.run_apply(WORDS)
    told = capsys.readouterr().err
    assert f"{unit.service.described} is given back: a real generation, and as before: eagle3 4" in told


def test_a_schedule_is_proven_by_the_text_of_its_file(
    unit: KeptServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    want(monkeypatch, num_steps=4)
    assert apply.run_apply(WORDS) == 0
    told = capsys.readouterr().out
    assert f"{unit.service.described}: applied: a real generation" in told
    assert f"in force: eagle3 4, schedule {SCHEDULE.label}" in told
