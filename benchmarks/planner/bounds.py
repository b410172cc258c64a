"""What no method can beat: the fewest launches after which measured settings alone are good for good.

One who knows the truth and every launch's noise would launch the settings S first that are good, and then go
on in an order that keeps them so; a recommendation can get worse, as a later launch's noise may look better:

    kept(S)    good(S) and (S is everything, or kept(S + {s}) for some s not in S)
    fewest     min |S| over S with kept(S)

Methods that recommend settings they did not launch may need fewer.
"""

from collections.abc import Mapping
from itertools import combinations

from benchmarks.planner.load_tables import PublishedTable
from spectune.perfmodel.evidence import Cell, Setting


def fewest_launches(table: PublishedTable, speeds: Mapping[Cell, float], threshold: float) -> int:
    """Fewest launches until the best measured setting of every level stays within the threshold.

    Args:
        table: settings, levels and true speeds.
        speeds: what measuring each cell reads.
        threshold: share of speed that may be lost at any level.
    """
    everything = frozenset(table.settings)
    kept = {everything}
    for size in range(len(table.settings) - 1, 0, -1):
        for members in map(frozenset, combinations(table.settings, size)):
            goes_on = any(members | {other} in kept for other in everything - members)
            if goes_on and _loss(table, speeds, members) <= threshold:
                kept.add(members)
    return min(len(members) for members in kept)


def _loss(table: PublishedTable, speeds: Mapping[Cell, float], members: frozenset[Setting]) -> float:
    """Largest share of speed lost at any level by the fastest of the members as measured."""
    losses = []
    for level in table.levels:
        cells = [cell for cell in table.truth if cell.concurrency == level]
        own = [cell for cell in cells if cell.setting in members]
        if not own:
            return 1.0
        chosen = max(own, key=lambda cell: speeds[cell])
        losses.append(1.0 - table.truth[chosen] / max(table.truth[cell] for cell in cells))
    return max(losses)
