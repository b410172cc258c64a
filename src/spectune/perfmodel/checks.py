"""Warnings about evidence and predictions: what the model cannot see or should not be trusted with."""

from collections.abc import Sequence

from spectune.perfmodel.evidence import Cell, Evidence, Setting, SpeedRow

CEILING = 0.95  # of num_steps + 1
_CEILING_ADVICE = "ignore_eos with greedy decoding does this; measure real prompts that stop by themselves"


def ceiling_warnings(evidence: Evidence) -> tuple[str, ...]:
    """Acceptance too good to be a real text's: by itself, or by ratios of speed no acceptance allows.

    At one sequence, speed(K) ÷ speed(J) <= (K + 1) ÷ (J + 1), as more steps cannot make a step cheaper.
    """
    found = [
        f"acceptance at its ceiling: {row.acceptance_length:.2f} of at most {row.setting.num_steps + 1} "
        "tokens per step "
        f"at num_steps {row.setting.label}{_text(row.workload)}; {_CEILING_ADVICE}"
        for row in evidence.acceptance
        if row.acceptance_length > CEILING * (row.setting.num_steps + 1)
    ]
    return (*found, *_ratio_warnings(evidence.speeds))


def _ratio_warnings(speeds: Sequence[SpeedRow]) -> list[str]:
    lowest = min(row.cell.concurrency for row in speeds)
    chains = sorted(
        r
        for r in speeds
        if r.cell.concurrency == lowest and r.cell.setting.topk == 1 and not r.cell.setting.is_off
    )
    worst: tuple[float, str] = (CEILING, "")
    for slow in chains:
        for fast in chains:
            j, k = slow.cell.setting.num_steps, fast.cell.setting.num_steps
            if k <= j or slow.cell.workload != fast.cell.workload:
                continue
            ratio, bound = fast.output_tps / slow.output_tps, (k + 1) / (j + 1)
            if ratio / bound < worst[0]:
                continue
            where = "above" if ratio > bound else "near"
            message = (
                f"acceptance {where} its ceiling: num_steps {k} is {ratio:.3f} times num_steps {j} at "
                f"concurrency {lowest}{_text(slow.cell.workload)}, and {bound:.3f} is the most that full "
                f"acceptance allows; {_CEILING_ADVICE}"
            )
            worst = max(worst, (ratio / bound, message))
    return [worst[1]] if worst[1] else []


def overload_warnings(rows: Sequence[SpeedRow]) -> tuple[str, ...]:
    """Cells left out of the fit because their speed collapsed."""
    return tuple(
        f"overload: {row.output_tps:g} tok/s at num_steps {row.cell.setting.label}, concurrency "
        f"{row.cell.concurrency}{_text(row.cell.workload)} is far below what fewer requests reach; the cell "
        "is left "
        "out of the fit, check for evicted requests"
        for row in sorted(rows)
    )


def reach_warnings(
    evidence: Evidence, settings: Sequence[Setting], concurrency: Sequence[int]
) -> tuple[str, ...]:
    """Predictions beyond what was measured."""
    found = []
    levels = [row.cell.concurrency for row in evidence.speeds]
    beyond = sorted(c for c in concurrency if c > max(levels) or c < min(levels))
    if beyond:
        found.append(
            f"extrapolation: concurrency {_list(beyond)} lies outside the measured {min(levels)} to "
            f"{max(levels)}; "
            "such predictions have missed by 19 % (median) on published tables, so measure the far end"
        )
    longest = max(row.cell.setting.num_steps for row in evidence.speeds)
    deeper = sorted({s.num_steps for s in settings if s.num_steps > longest})
    if deeper:
        found.append(f"extrapolation: num_steps {_list(deeper)} lies above the measured {longest}")
    has_off = any(row.cell.setting.is_off for row in evidence.speeds)
    if any(s.is_off for s in settings) and not has_off:
        found.append(
            "off was not measured: it runs other kernels than verification does, so its prediction is a "
            "guess; "
            "give it its own launch"
        )
    return tuple(found)


def capacity_warnings(evidence: Evidence, cells: Sequence[Cell]) -> tuple[str, ...]:
    """Cells whose running requests are guessed from other settings' read-backs, where it matters."""
    measured = {row.cell.setting.num_draft_tokens for row in evidence.speeds}
    guesses = []
    for tokens in sorted({c.setting.num_draft_tokens for c in cells}):
        limits = sorted(
            {
                curve.limit(c)
                for curve in evidence.capacity
                for c in cells
                if c.setting.num_draft_tokens == tokens
            }
        )
        highest = max(c.concurrency for c in cells)
        if len(limits) > 1 and limits[0] < highest:
            known = "" if tokens in measured else " (not launched)"
            guesses.append(f"{limits[0]} to {limits[-1]} at {tokens} draft tokens{known}")
    if not guesses:
        return ()
    return (f"capacity is a guess between laws: {'; '.join(guesses)}; read max_running_requests back",)


def _text(workload: str) -> str:
    return f" ({workload})" if workload else ""


def _list(values: Sequence[int]) -> str:
    return ", ".join(map(str, values))
