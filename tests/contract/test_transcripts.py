"""What real servers answered, read by their dialects, against each `tests/transcripts/*/manifest.toml`."""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from spectune.domain.command import Command
from spectune.domain.measurement import SpecCounters
from spectune.domain.spec_config import SpecConfig
from spectune.domain.trial import Trial, TrialId
from spectune.engines.adapter import EngineAdapter, ServerTraces
from spectune.engines.llamacpp import LlamacppAdapter
from spectune.engines.sglang import SglangAdapter
from spectune.engines.vllm import VllmAdapter
from spectune.metrics.acceptance import counter_faults, setting_faults
from spectune.testing.study_values import make_effective
from spectune.tuning.audit import settings_differ, speculation_differs

ROOT = Path(__file__).parents[1] / "transcripts"
ADAPTERS: dict[str, EngineAdapter] = {
    "sglang": SglangAdapter(),
    "vllm": VllmAdapter(),
    "llamacpp": LlamacppAdapter(),
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One server or one failure of a manifest; the values are TOML's."""

    folder: Path
    adapter: EngineAdapter
    values: dict[str, Any]

    @property
    def name(self) -> str:
        return f"{self.folder.name}-{self.values.get('folder') or self.values['log']}"

    @property
    def command(self) -> Command:
        return Command(argv=tuple(self.values["command"]))

    @property
    def config(self) -> SpecConfig:
        return SpecConfig.chain(*self.values["config"])

    def text(self, name: str) -> str:
        path: Path = self.folder / self.values.get("folder", "") / name
        return path.read_text("utf-8")

    def counters(self) -> SpecCounters:
        body = self.text(self.values.get("metrics", "metrics_after.txt"))
        found = self.adapter.read_counters(body, self.config)
        assert found is not None
        return found


def entries(kind: str) -> Iterator[Entry]:
    for path in sorted(ROOT.glob("*/manifest.toml")):
        manifest = tomllib.loads(path.read_text("utf-8"))
        for values in manifest.get(kind, []):
            version = {"engine_version": manifest["version"]}
            yield Entry(path.parent, ADAPTERS[manifest["engine"]], version | values)


def all_of(kind: str, *, with_file: str = "") -> pytest.MarkDecorator:
    """Every entry, or those for which a file of this name was recorded."""
    found = [
        entry
        for entry in entries(kind)
        if not with_file or (entry.folder / entry.values["folder"] / with_file).exists()
    ]
    return pytest.mark.parametrize("entry", found, ids=lambda entry: entry.name)


def asked(entry: Entry) -> Trial:
    return Trial(id=TrialId(1), config=entry.config, role="setting")


def test_every_engine_with_a_dialect_has_a_transcript() -> None:
    assert {entry.adapter.name for entry in entries("server")} == set(ADAPTERS)


@all_of("server")
def test_settings_and_capacity_are_read_back(entry: Entry) -> None:
    answers = tuple(entry.text(name) for name in entry.values["answers"])
    log = entry.text(entry.values["log"]) if "log" in entry.values else ""
    effective = entry.adapter.read_settings(entry.command, answers, log)
    assert settings_differ(asked(entry), effective) == ""
    assert entry.adapter.base_config(entry.command) == entry.config
    assert effective.max_running_requests == entry.values["max_running_requests"]
    assert effective.max_total_num_tokens == entry.values["max_total_num_tokens"]
    assert effective.engine_version == entry.values["engine_version"]
    assert effective.model
    assert effective.covariates()


@all_of("server")
def test_counters_are_read_and_keep_their_identities(entry: Entry) -> None:
    counters = entry.counters()
    for name, value in entry.values["counters"].items():
        assert getattr(counters, name) == value, name
    if "per_position" in entry.values:
        assert counters.accepted_per_position == tuple(entry.values["per_position"])
    assert speculation_differs(asked(entry), make_effective(entry.config), counters) == ""
    requests = entry.values["requests"]
    if requests:
        tokens = counters.generated_tokens
        assert tokens is not None
        assert setting_faults(counters, entry.config, num_requests=requests, output_tokens=tokens) == ()


@all_of("server", with_file="metrics_before.txt")
def test_counters_only_rise_from_a_fresh_server_on(entry: Entry) -> None:
    before = entry.adapter.read_counters(entry.text("metrics_before.txt"), entry.config)
    assert before is not None
    assert counter_faults(entry.counters().since(before)) == ()


@all_of("server", with_file="completion.json")
def test_a_recorded_generation_is_one(entry: Entry) -> None:
    assert entry.adapter.read_generation(entry.text("completion.json")) >= 24


@all_of("silent")
def test_a_server_that_goes_on_without_speculation_is_found_out_and_quoted(entry: Entry) -> None:
    answers = tuple(entry.text(name) for name in entry.values["answers"])
    log = entry.text(entry.values["log"])
    effective = entry.adapter.read_settings(entry.command, answers, log)
    assert "off runs" in settings_differ(asked(entry), effective)
    assert entry.values["telling"] in entry.adapter.refusal(log)
    assert speculation_differs(asked(entry), make_effective(entry.config), entry.counters())


@all_of("failure")
def test_failures_are_classed_with_their_telling_line(entry: Entry) -> None:
    traces = ServerTraces(
        exit_status=entry.values["exit_status"], log_tail=entry.text(entry.values["log"]), was_ready=False
    )
    found = entry.adapter.diagnose(traces)
    assert found.kind == entry.values["kind"]
    assert entry.values["telling"] in found.cause
    assert found.next_step
    assert entry.values.get("step", "") in found.next_step
