"""Published tables → evidence per table; cells in overload are left out, trees are left out."""

import json
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spectune.perfmodel.capacity_beliefs import believed_curves
from spectune.perfmodel.evidence import (
    AcceptanceRow,
    CapacityCurve,
    Cell,
    Evidence,
    Setting,
    SpeedRow,
    split_overload,
)

TABLES = Path(__file__).parent / "tables"


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedTable:
    """One deployment as published.

    Attributes:
        source: file it comes from; tables of one source share hardware, author or engine build.
        name: deployment.
        truth: output tokens per second by cell.
        acceptance: acceptance length by setting and text, where published.
        running: requests that ran at once by draft tokens, where published.
        has_positions: whether the engine's per-position counters follow from the acceptance lengths.
        expert_share: experts per token ÷ experts, or None.
        teaches: whether priors learn from it; not from one that was measured beside other work.
    """

    source: str
    name: str
    truth: dict[Cell, float]
    acceptance: dict[tuple[Setting, str], float]
    running: dict[int, int]
    has_positions: bool
    expert_share: float | None
    settings: tuple[Setting, ...] = field(default=())
    levels: tuple[int, ...] = field(default=())
    teaches: bool = True

    @property
    def label(self) -> str:
        """Source and name."""
        return f"{self.source}/{self.name}"

    def acceptance_seen(self, launched: set[Setting]) -> tuple[AcceptanceRow, ...]:
        """Acceptance these launches reveal: of shorter drafts too where positions are counted."""
        longest = max((s.num_steps for s in launched), default=0)
        return tuple(
            AcceptanceRow(setting=s, workload=w, acceptance_length=value)
            for (s, w), value in self.acceptance.items()
            if s in launched or (self.has_positions and s.num_steps <= longest)
        )

    def capacity_seen(self, launched: set[Setting]) -> tuple[CapacityCurve, ...]:
        """What launches of these settings make one believe of capacity."""
        seen = {
            s.num_draft_tokens: self.running[s.num_draft_tokens]
            for s in launched
            if s.num_draft_tokens in self.running
        }
        if not self.running:
            return ()
        return believed_curves(seen, [s.num_draft_tokens for s in self.settings])

    def evidence(self) -> Evidence:
        """Everything published."""
        launched = set(self.settings)
        return Evidence(
            speeds=tuple(SpeedRow(cell=c, output_tps=y) for c, y in self.truth.items()),
            acceptance=self.acceptance_seen(launched),
            capacity=self.capacity_seen(launched),
            expert_share=self.expert_share,
        )


def load_tables() -> list[PublishedTable]:
    """All tables, by source and name."""
    found = []
    for path in sorted(TABLES.glob("*.json")):
        for table in json.loads(path.read_text(encoding="utf-8"))["tables"]:
            found.extend(_published(path.stem, table))
    return found


def _published(source: str, table: dict[str, Any]) -> list[PublishedTable]:
    rows = []
    acceptance: dict[tuple[Setting, str], list[float]] = defaultdict(list)
    running: dict[int, int] = {}
    for row in table["rows"]:
        if row.get("topk", 1) != 1:
            continue
        setting = Setting.chain(row["num_steps"])
        cell = Cell(setting=setting, concurrency=row["concurrency"], workload=row.get("workload", ""))
        speed = row["output_tps"] if "output_tps" in row else row["request_tps"] * row["concurrency"]
        rows.append(SpeedRow(cell=cell, output_tps=speed))
        if "acceptance_length" in row:
            acceptance[(setting, cell.workload)].append(row["acceptance_length"])
        if "max_running_requests" in row:
            running[setting.num_draft_tokens] = row["max_running_requests"]
    sound, _ = split_overload(tuple(rows))
    settings = tuple(sorted({r.cell.setting for r in sound}))
    if len(settings) < 2:
        return []
    return [
        PublishedTable(
            source=source,
            name=table["name"],
            truth={r.cell: r.output_tps for r in sorted(sound)},
            acceptance={key: sum(values) / len(values) for key, values in acceptance.items()},
            running=running,
            has_positions=bool(table.get("positions")),
            expert_share=table.get("expert_share"),
            settings=settings,
            levels=tuple(sorted({r.cell.concurrency for r in sound})),
            teaches=table.get("teaches", True),
        )
    ]
