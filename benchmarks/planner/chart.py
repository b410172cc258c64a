"""Regret by launches as SVG, drawn by hand."""

from collections.abc import Mapping, Sequence

import numpy as np

from benchmarks.planner.replay import Run
from spectune.perfmodel.arrays import Floats

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 640, 360, 60, 40, 20
COLOURS = ("#888888", "#bbbbbb", "#3b7dd8", "#7fb2f0", "#d98b2b", "#5aa469", "#c0392b")
NUM_LAUNCHES = 6
FLOOR = 0.1  # % of regret at the bottom of the logarithmic axis


def chart(runs: Mapping[str, Mapping[str, Sequence[Run]]]) -> str:
    """Mean over tables and seeds of the worst level's regret, after each launch; logarithmic."""
    curves = {name: _curve(by_table) for name, by_table in runs.items()}
    top = max(float(c.max()) for c in curves.values())
    attributes = 'xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" font-size="12"'
    parts = [
        f'<svg {attributes} viewBox="0 0 {WIDTH} {HEIGHT}">',
        f'<text x="{LEFT}" y="14">worst level\'s regret in %, mean over tables and seeds</text>',
    ]
    for tick in (0.1, 0.3, 1, 3, 10, 30):
        y = _y(tick, top)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - 150}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{tick:g}</text>')
    parts += [
        f'<text x="{_x(i):.1f}" y="{HEIGHT - 18}" text-anchor="middle">{i + 1}</text>'
        for i in range(NUM_LAUNCHES)
    ]
    parts.append(
        f'<text x="{(LEFT + WIDTH - 150) / 2:.0f}" y="{HEIGHT - 3}" text-anchor="middle">launches</text>'
    )
    for index, (name, curve) in enumerate(curves.items()):
        points = " ".join(f"{_x(i):.1f},{_y(v, top):.1f}" for i, v in enumerate(curve))
        colour = COLOURS[index % len(COLOURS)]
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        y = TOP + 16 + 18 * index
        parts.append(f'<text x="{WIDTH - 140}" y="{y}" fill="{colour}">{name}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _curve(by_table: Mapping[str, Sequence[Run]]) -> Floats:
    values = []
    for runs in by_table.values():
        regret = np.array([[*r.regret, *[r.regret[-1]] * NUM_LAUNCHES][:NUM_LAUNCHES] for r in runs])
        values.append(100 * regret.mean(axis=0))
    return np.asarray(np.maximum(np.mean(values, axis=0), FLOOR))


def _x(index: int) -> float:
    return LEFT + 20 + index * (WIDTH - 150 - LEFT - 40) / (NUM_LAUNCHES - 1)


def _y(value: float, top: float) -> float:
    share = np.log(value / FLOOR) / np.log(max(top, 30) / FLOOR)
    return float(HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP - 10))
