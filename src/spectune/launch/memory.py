"""Free memory around launches: enough before a larger setting, and a GPU's given back before the next start.

    GPU    NVML where the `gpu` extra (nvidia-ml-py) and a driver are there; on other hosts `nvidia-smi`
    RAM    MemAvailable of /proc/meminfo

SIGKILLed contexts hold GPU memory for seconds; an engine that starts meanwhile finds too little and fails, or
takes less and runs with another capacity. Where nothing can be read nothing is checked.
"""

import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from spectune.clock import Clock
from spectune.domain.text import is_digits
from spectune.launch.host import Host

_MEMINFO = Path("/proc/meminfo")
_BACK_S, _POLL_S = 30.0, 0.25
_SLACK_SHARE = 0.02
_MARGIN = 1.05
_LEAST_FREE_SHARE = 0.05
_GIB = 1024**3
_MIB = 1024**2

# One line per place: name, free and total bytes' count, and what it counts (kB or MiB).
_READ_THERE = r"""
while read -r name amount _; do
  case $name in MemTotal:) total=$amount ;; MemAvailable:) echo "RAM $amount $total" ;; esac
done </proc/meminfo
command -v nvidia-smi >/dev/null 2>&1 || exit 0
nvidia-smi --query-gpu=index,memory.free,memory.total --format=csv,noheader,nounits 2>/dev/null |
while IFS=', ' read -r index free total; do echo "GPU$index $free $total"; done
"""


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


def read_local_memory() -> tuple[MemoryPlace, ...]:
    """This machine's RAM, and its GPUs where NVML can be asked."""
    try:
        text = _MEMINFO.read_text(encoding="utf-8")
    except OSError:
        return _read_gpus()
    return (*read_meminfo(text), *_read_gpus())


def reader_of(host: Host) -> MemoryReader:
    """A host's memory: this machine's own, or what a shell command there says."""
    if host.is_local:
        return read_local_memory
    return lambda: read_lines(host.run(("/bin/sh", "-c", _READ_THERE, "spectune")).stdout)


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


def read_lines(text: str) -> tuple[MemoryPlace, ...]:
    """What the shell command on a host printed; lines that cannot be read are left out."""
    found: list[MemoryPlace] = []
    for line in text.splitlines():
        name, *amounts = line.split()
        if len(amounts) != 2 or not all(is_digits(amount) for amount in amounts):
            continue
        unit = 1024 if name == "RAM" else _MIB
        free, total = (int(amount) * unit for amount in amounts)
        found.append(MemoryPlace(name=name, free_bytes=free, total_bytes=total))
    return tuple(found)


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


def _read_gpus() -> tuple[MemoryPlace, ...]:
    """The GPUs that NVML tells of; none without the package or a driver."""
    if importlib.util.find_spec("pynvml") is None:
        return ()
    nvml = importlib.import_module("pynvml")
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return ()
    try:
        handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
        found = [nvml.nvmlDeviceGetMemoryInfo(handle) for handle in handles]
    except nvml.NVMLError:
        return ()
    finally:
        nvml.nvmlShutdown()
    return tuple(
        MemoryPlace(name=f"GPU{index}", free_bytes=int(memory.free), total_bytes=int(memory.total))
        for index, memory in enumerate(found)
    )


def _gib(amount: int) -> str:
    return f"{amount / _GIB:.1f} GiB"
