"""New prompts or another temperature without new launches: one acceptance run re-ranks every setting.

Verification costs the same whatever the text, so only the acceptance changes; a text also has an effect of
its own on all cells (prompt lengths, share of prefill), which the effects carry as x (effects.py).
Temperature enters through acceptance only, except with rejection-sampling kernels, which this cannot see.
Errors on published texts: see benchmarks/planner/results.md.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from spectune.errors import NotEnoughData
from spectune.perfmodel.evidence import AcceptanceRow, Cell, Evidence, Setting, SpeedRow
from spectune.perfmodel.posterior import Posterior, sample
from spectune.perfmodel.priors import Prior

WORTH_CHANGING = 0.02  # gain below which the running setting is kept
FAR = 2.0  # ratio of acceptance lengths that nine in ten published pairs of texts of one server keep

Verdict = Literal["keep", "change", "measure"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """What one level of the new text calls for.

    Attributes:
        concurrency: the level.
        current: setting that is running.
        best: setting with the highest expected speed on the new text.
        gain: expected share of speed gained by changing to it.
        gain_ci: its 80 % interval.
        verdict: "keep" when the gain is small, "change" when it is surely positive, else "measure".
        why: one sentence for the user.
    """

    concurrency: int
    current: Setting
    best: Setting
    gain: float
    gain_ci: tuple[float, float]
    verdict: Verdict
    why: str


def with_text(
    evidence: Evidence,
    workload: str,
    acceptance: Sequence[AcceptanceRow],
    anchors: Sequence[SpeedRow] = (),
) -> Evidence:
    """The evidence with a new text's acceptance, and timed cells of it if there are any."""
    if not acceptance:
        raise NotEnoughData(
            f"transfer to {workload!r}: `an acceptance length of the new text` must be given; run its "
            "prompts once "
            "on the running server."
        )
    named = tuple(replace(row, workload=workload) for row in acceptance)
    timed = tuple(replace(row, cell=replace(row.cell, workload=workload)) for row in anchors)
    return replace(evidence, speeds=(*evidence.speeds, *timed), acceptance=(*evidence.acceptance, *named))


def re_rank(
    evidence: Evidence,
    workload: str,
    current: Mapping[int, Setting],
    settings: Sequence[Setting],
    *,
    prior: Prior,
    rng: np.random.Generator,
) -> tuple[Transfer, ...]:
    """Verdict per level for a text that `with_text` added.

    Args:
        evidence: with the new text.
        workload: its name.
        current: what runs now, among the settings, by level.
        settings: what may run.
        prior: what is known of any deployment.
        rng: source of chance.
    """
    order = sorted(settings)
    levels = sorted(current)
    cells = tuple(Cell(setting=s, concurrency=c, workload=workload) for c in levels for s in order)
    posterior = sample(evidence, cells, prior=prior, rng=rng, chance="seen")
    return tuple(_verdict(posterior, level, order, current[level]) for level in levels)


def transfer_warnings(
    evidence: Evidence, acceptance: Sequence[AcceptanceRow], verdicts: Sequence[Transfer], *, prior: Prior
) -> tuple[str, ...]:
    """Why the new text's acceptance alone may not be enough.

    Args:
        evidence: of the old texts.
        acceptance: of the new one.
        verdicts: what it calls for.
        prior: what is known of any deployment.
    """
    shift = (
        f"absolute speeds of the new prompts may all be off by {prior.scales.text:.0%}, as prompt and output "
        "lengths differ from the table's; one timed cell of them settles it, and ranks do not need it"
    )
    found = [shift]
    old = [row for row in evidence.acceptance if not row.setting.is_off]
    if not old:
        found.append(
            "not enough: the table has no acceptance_length, so that acceptance and step time of its prompts "
            "are told apart by experience only; add it for one long draft"
        )
    found += [text for row in acceptance if (text := _beyond(old, row))]
    unsure = [str(one.concurrency) for one in verdicts if one.verdict == "measure"]
    if unsure:
        found.append(
            f"not enough: at concurrency {', '.join(unsure)} the best setting may or may not change; launch "
            "both there on the new prompts"
        )
    return tuple(found)


def _beyond(old: Sequence[AcceptanceRow], row: AcceptanceRow) -> str:
    """A warning where a length is far from every text's at the same setting, or ""."""
    same = [one.acceptance_length for one in old if one.setting == row.setting]
    if not same or min(same) / FAR <= row.acceptance_length <= max(same) * FAR:
        return ""
    seen = ", ".join(f"{length:.2f}" for length in sorted(set(same)))
    return (
        f"extrapolation: {row.acceptance_length:.2f} tokens per step at num_steps {row.setting.label} are "
        f"far from the table's {seen}; confirm by one launch"
    )


def _verdict(posterior: Posterior, level: int, settings: Sequence[Setting], current: Setting) -> Transfer:
    places = [i for i, cell in enumerate(posterior.cells) if cell.concurrency == level]
    logs = posterior.lasting[:, places]
    best = int(logs.mean(axis=0).argmax())
    gains = np.expm1(logs[:, best] - logs[:, settings.index(current)])
    low, high = (float(v) for v in np.quantile(gains, (0.1, 0.9)))
    gain = float(gains.mean())
    verdict: Verdict = "measure"
    why = "the gain may be none: launch both settings on the new prompts"
    if max(gain, 0.0) < WORTH_CHANGING:
        verdict, why = "keep", "no other setting is expected to gain 2 % on the new prompts"
    elif low > 0:
        verdict, why = "change", "the new prompts' acceptance alone makes the other setting faster"
    return Transfer(
        concurrency=level,
        current=current,
        best=settings[best],
        gain=gain,
        gain_ci=(low, high),
        verdict=verdict,
        why=why,
    )
