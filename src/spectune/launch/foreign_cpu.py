"""CPU time of processes that are not ours, read from /proc (no root needed).

    busy     user + nice + system + steal of the CPUs this process may use, from /proc/stat
    ours     utime + stime + cutime + cstime over our process trees, from /proc/PID/stat
    share    (Δbusy − Δours) ÷ Δt, in cores; 0.1 = 10 % of one core

Interrupt time is left out: it is mostly our own loopback traffic. cutime and cstime hold the time of
children already gone, so that the difference of two sums stays right when a process ends between them.
Source: proc(5).
"""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PROC = Path("/proc")


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuReading:
    """Two counters and when they were read.

    Attributes:
        at_s: monotonic seconds.
        busy_s: CPU seconds spent on our CPUs since boot.
        ours_s: CPU seconds of our trees since they began.
    """

    at_s: float
    busy_s: float
    ours_s: float


CpuReader = Callable[[float, Iterable[int]], CpuReading | None]


def read_cpu(at_s: float, root_pids: Iterable[int]) -> CpuReading | None:
    """The counters now, or None where /proc does not give them.

    Args:
        at_s: the time now, monotonic.
        root_pids: our processes; their descendants count as ours.
    """
    try:
        stat = (_PROC / "stat").read_text()
    except OSError:
        return None
    processes = _read_processes()
    ours = _descendants(set(root_pids), {pid: parent for pid, (parent, _) in processes.items()})
    ours_s = sum(ticks for pid, (_, ticks) in processes.items() if pid in ours) / _TICKS_PER_S
    return CpuReading(at_s=at_s, busy_s=_busy_ticks(stat, _usable_cpus()) / _TICKS_PER_S, ours_s=ours_s)


def foreign_share(before: CpuReading | None, after: CpuReading | None) -> float | None:
    """Foreign CPU time between two readings, in cores, at least 0; None where one is missing."""
    if before is None or after is None or after.at_s <= before.at_s:
        return None
    foreign_s = (after.busy_s - before.busy_s) - (after.ours_s - before.ours_s)
    return max(foreign_s / (after.at_s - before.at_s), 0.0)


def _usable_cpus() -> set[int]:
    return os.sched_getaffinity(0)


def _busy_ticks(stat: str, cpus: set[int]) -> int:
    """Ticks of user + nice + system + steal of these CPUs; guest time is already in user."""
    ticks = 0
    for line in stat.splitlines():
        words = line.split()
        if words and words[0].startswith("cpu") and words[0][3:].isdecimal() and int(words[0][3:]) in cpus:
            numbers = [int(word) for word in words[1:]] + [0] * 8
            ticks += numbers[0] + numbers[1] + numbers[2] + numbers[7]
    return ticks


def _read_processes() -> dict[int, tuple[int, int]]:
    """By process: (parent, ticks used by it and by its reaped children)."""
    found: dict[int, tuple[int, int]] = {}
    for folder in _PROC.iterdir():
        if folder.name.isdecimal():
            try:
                stat = (folder / "stat").read_text(errors="replace")
            except OSError:
                continue  # it ended meanwhile
            fields = stat.rpartition(")")[2].split()  # field 3 (state) on; the name may hold anything
            found[int(folder.name)] = (int(fields[1]), sum(int(word) for word in fields[11:15]))
    return found


def _descendants(roots: set[int], parent_of: dict[int, int]) -> set[int]:
    """The roots and everything below them."""
    children: dict[int, list[int]] = {}
    for pid, parent in parent_of.items():
        children.setdefault(parent, []).append(pid)
    found: set[int] = set()
    waiting = list(roots)
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found.add(pid)
            waiting.extend(children.get(pid, ()))
    return found
