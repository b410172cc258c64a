"""Free memory around launches: enough before a larger setting, and a GPU's given back before the next start.

    GPU    NVML where the `gpu` extra (nvidia-ml-py) and a driver are there; on other hosts `nvidia-smi`
    RAM    MemAvailable of /proc/meminfo

SIGKILLed contexts hold GPU memory for seconds; an engine that starts meanwhile finds too little and fails, or
takes less and runs with another capacity. Where nothing can be read nothing is checked. Only GPUs that the
server can see are looked at: on the others somebody else's memory comes and goes.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from spectune.clock import Clock
from spectune.domain.text import is_digits
from spectune.launch.host import Host
from spectune.launch.nvml import read_gpus
from spectune.launch.visible_gpus import Visible, is_visible

_MEMINFO = Path("/proc/meminfo")
_BACK_S, _POLL_S = 30.0, 0.25
_SLACK_SHARE = 0.02
_MARGIN = 1.05
_LEAST_FREE_SHARE = 0.05
_GIB = 1024**3
_MIB = 1024**2

# One line per place: name, free and total (kB of RAM, MiB of a GPU), and a GPU's UUID.
_READ_THERE = r"""
while read -r name amount _; do
  case $name in MemTotal:) total=$amount ;; MemAvailable:) echo "RAM $amount $total" ;; esac
done </proc/meminfo
command -v nvidia-smi >/dev/null 2>&1 || exit 0
nvidia-smi --query-gpu=index,memory.free,memory.total,uuid --format=csv,noheader,nounits 2>/dev/null |
while IFS=', ' read -r index free total uuid; do echo "GPU$index $free $total $uuid"; done
"""
_LINE = re.compile(
    r"(?P<name>RAM|GPU(?P<index>[0-9]+)) (?P<free>[0-9]+) (?P<total>[0-9]+)(?: (?P<uuid>\S+))?", re.ASCII
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPlace:
    """One memory at one moment.

    Attributes:
        name: "RAM", "GPU0".
        free_bytes: what a new process could have.
        total_bytes: its size.
    """

    name: str
    free_bytes: int
    total_bytes: int


MemoryReader = Callable[[], tuple[MemoryPlace, ...]]


def nothing_read() -> tuple[MemoryPlace, ...]:
    """No memory is looked at."""
    return ()


def read_local_memory(visible: Visible = None) -> tuple[MemoryPlace, ...]:
    """This machine's RAM, and those of its GPUs that the server sees, where NVML can be asked."""
    try:
        text = _MEMINFO.read_text(encoding="utf-8")
    except OSError:
        return _gpu_memory(visible)
    return (*read_meminfo(text), *_gpu_memory(visible))


def reader_of(host: Host, visible: Visible = None) -> MemoryReader:
    """A host's memory: this machine's own, or what a shell command there says."""
    if host.is_local:
        return partial(read_local_memory, visible)
    return lambda: read_lines(host.run(("/bin/sh", "-c", _READ_THERE, "spectune")).stdout, visible)


def read_meminfo(text: str) -> tuple[MemoryPlace, ...]:
    """The RAM of `/proc/meminfo`; nothing where it does not say."""
    amounts = {
        name: int(words[0]) * 1024
        for name, _, value in (line.partition(":") for line in text.splitlines())
        if (words := value.split()) and is_digits(words[0])
    }
    if "MemAvailable" not in amounts or "MemTotal" not in amounts:
        return ()
    free, total = amounts["MemAvailable"], amounts["MemTotal"]
    return (MemoryPlace(name="RAM", free_bytes=free, total_bytes=total),)


def read_lines(text: str, visible: Visible = None) -> tuple[MemoryPlace, ...]:
    """What the shell command on a host printed; lines that cannot be read are left out."""
    found = (_read_line(line, visible) for line in text.splitlines())
    return tuple(place for place in found if place is not None)


def _read_line(line: str, visible: Visible) -> MemoryPlace | None:
    match = _LINE.fullmatch(line.strip())
    if match is None:
        return None
    index, uuid = match["index"], match["uuid"] or ""
    if index is not None and not is_visible(visible, int(index), uuid):
        return None
    unit = 1024 if index is None else _MIB
    free, total = int(match["free"]) * unit, int(match["total"]) * unit
    return MemoryPlace(name=match["name"], free_bytes=free, total_bytes=total)


class MemoryWatch:
    """What a study knows of memory: how much was free before each launch and what its servers took."""

    def __init__(self, read: MemoryReader, clock: Clock) -> None:
        """Has seen nothing."""
        self._read, self._clock = read, clock
        self._before: dict[str, int] = {}
        self._taken: dict[str, int] = {}
        self._largest = 1

    def obstacle(self, size: int) -> str:
        """Why a server of this size should not be started now, or ""; waits for a GPU's memory to come back.

        Args:
            size: tokens verified per step; a larger setting needs more memory.
        """
        places = self._wait_until_back()
        late = [place for place in places if self._missing(place) > 0]
        if late:
            place = late[0]
            return (
                f"{place.name}: `the memory of the server before is free again` must hold, "
                f"{_gib(self._missing(place))} are not, {_BACK_S:g} s after its end; see who holds it."
            )
        self._before = {place.name: place.free_bytes for place in places}
        if size <= self._largest:
            return ""
        return next((text for place in places if (text := self._too_little(place))), "")

    def note_ready(self, size: int) -> None:
        """A server of this size gives tokens now: what it took is what is free no more."""
        for place in self._read():
            taken = self._before.get(place.name, place.free_bytes) - place.free_bytes
            self._taken[place.name] = max(self._taken.get(place.name, 0), taken)
        self._largest = max(self._largest, size)

    def _wait_until_back(self) -> tuple[MemoryPlace, ...]:
        give_up_s = self._clock.monotonic_s() + _BACK_S
        while True:
            places = self._read()
            is_back = all(self._missing(place) <= 0 for place in places)
            if is_back or self._clock.monotonic_s() >= give_up_s:
                return places
            self._clock.sleep(_POLL_S)

    def _missing(self, place: MemoryPlace) -> int:
        """Bytes of a GPU that our last server used which are not free again, slack left out."""
        slack = int(_SLACK_SHARE * place.total_bytes)
        if not place.name.startswith("GPU") or self._taken.get(place.name, 0) <= slack:
            return 0
        return max(self._before.get(place.name, 0) - slack - place.free_bytes, 0)

    def _too_little(self, place: MemoryPlace) -> str:
        """Why a larger server may not find room here: room is what the largest so far took, and 5 %."""
        if self._taken:
            needed = int(_MARGIN * self._taken.get(place.name, 0))
            what = "what the largest server so far took, and 5 %"
        else:
            needed = min(int(_LEAST_FREE_SHARE * place.total_bytes), _GIB) if place.name == "RAM" else 0
            what = "5 % of it, 1 GiB at most"
        if place.free_bytes >= needed:
            return ""
        return (
            f"{place.name}: `{_gib(needed)} are free for a larger setting` must hold ({what}), "
            f"{_gib(place.free_bytes)} are; end what holds it, or lower the engine's memory fraction."
        )


def _gpu_memory(visible: Visible) -> tuple[MemoryPlace, ...]:
    """That of the visible GPUs which NVML tells of."""
    return tuple(
        MemoryPlace(name=f"GPU{gpu.index}", free_bytes=gpu.free_bytes, total_bytes=gpu.total_bytes)
        for gpu in read_gpus(visible)
    )


def _gib(amount: int) -> str:
    return f"{amount / _GIB:.1f} GiB"
