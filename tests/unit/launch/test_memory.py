import subprocess
import sys
from pathlib import Path

import pytest

from spectune.clock import SystemClock
from spectune.domain.endpoint import Endpoint
from spectune.launch.host import HostAnswer
from spectune.launch.local_host import run_words
from spectune.launch.memory import (
    MemoryPlace,
    MemoryWatch,
    nothing_read,
    read_lines,
    read_local_memory,
    read_meminfo,
    reader_of,
)
from spectune.testing.recording import FakeClock

GIB = 1024**3


class Machine:
    """A GPU of 100 GiB, its free memory as told; `late_s` seconds pass until more of it is free."""

    def __init__(self, clock: FakeClock, free_gib: float = 90.0, ram_gib: float = 50.0) -> None:
        self.clock, self.free_gib, self.ram_gib = clock, free_gib, ram_gib
        self.comes_back: tuple[float, float] | None = None

    def read(self) -> tuple[MemoryPlace, ...]:
        if self.comes_back is not None and self.clock.now_s >= self.comes_back[0]:
            self.free_gib, self.comes_back = self.comes_back[1], None
        gpu = MemoryPlace(name="GPU0", free_bytes=int(self.free_gib * GIB), total_bytes=100 * GIB)
        other = MemoryPlace(name="GPU1", free_bytes=0, total_bytes=100 * GIB)  # somebody else's
        ram = MemoryPlace(name="RAM", free_bytes=int(self.ram_gib * GIB), total_bytes=100 * GIB)
        return gpu, other, ram


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def machine(clock: FakeClock) -> Machine:
    return Machine(clock)


def after_a_server(machine: Machine, *, size: int, takes_gib: float) -> MemoryWatch:
    """A watch after one server of this size, still running."""
    watch = MemoryWatch(machine.read, machine.clock)
    assert watch.obstacle(size) == ""
    machine.free_gib -= takes_gib
    watch.note_ready(size)
    return watch


def test_gpu_memory_that_lingers_is_waited_for(machine: Machine, clock: FakeClock) -> None:
    watch = after_a_server(machine, size=1, takes_gib=60)
    machine.comes_back = (clock.now_s + 12.0, 90.0)
    assert watch.obstacle(1) == ""
    assert 12.0 <= clock.now_s - 1000.0 < 13.0


def test_gpu_memory_that_never_comes_back_is_told(machine: Machine, clock: FakeClock) -> None:
    watch = after_a_server(machine, size=1, takes_gib=60)
    told = watch.obstacle(1)
    assert told.startswith("GPU0: `the memory of the server before is free again`")
    assert "58.0 GiB" in told  # 60 less the slack of 2 %
    assert clock.now_s - 1000.0 >= 30.0


def test_a_larger_setting_needs_what_the_largest_so_far_took(machine: Machine) -> None:
    watch = after_a_server(machine, size=2, takes_gib=60)
    machine.free_gib = 90.0
    assert watch.obstacle(4) == ""
    machine.free_gib -= 60
    watch.note_ready(4)
    machine.free_gib = 90.0
    machine.ram_gib = 0.5  # the servers took none of it
    assert watch.obstacle(5) == ""
    watch.note_ready(5)
    narrow = after_a_server(Machine(machine.clock, free_gib=61.0), size=1, takes_gib=60)
    narrow_machine = Machine(machine.clock, free_gib=61.0)
    narrow._read = narrow_machine.read
    assert narrow.obstacle(1) == ""
    told = narrow.obstacle(2)
    assert "63.0 GiB are free for a larger setting" in told
    assert "61.0 GiB are" in told


def test_before_anything_is_known_a_larger_setting_needs_some_ram(clock: FakeClock) -> None:
    full = Machine(clock, ram_gib=0.5)
    watch = MemoryWatch(full.read, clock)
    assert watch.obstacle(1) == ""  # off
    assert watch.obstacle(4).startswith("RAM: `1.0 GiB are free")


def test_what_others_do_on_a_gpu_that_the_server_does_not_see_is_nothing(clock: FakeClock) -> None:
    line = "GPU0 {} 1000 GPU-aa\nGPU1 {} 1000 GPU-bb"
    free = [900, 900]
    watch = MemoryWatch(lambda: read_lines(line.format(*free), ("0",)), clock)
    assert watch.obstacle(1) == ""
    free[:] = [300, 100]  # ours took 600 of GPU0 while somebody else began on GPU1
    watch.note_ready(1)
    free[0] = 900  # ours is gone, the other one stays
    assert watch.obstacle(4) == ""
    assert clock.now_s == 1000.0  # nothing was waited for


def test_where_nothing_is_read_nothing_is_checked(clock: FakeClock) -> None:
    watch = MemoryWatch(nothing_read, clock)
    assert watch.obstacle(9) == ""
    watch.note_ready(9)
    assert watch.obstacle(99) == ""
    assert clock.now_s == 1000.0


def test_this_machine_has_ram() -> None:
    (ram,) = [place for place in read_local_memory() if place.name == "RAM"]
    assert 0 < ram.free_bytes <= ram.total_bytes
    assert read_meminfo("MemFree: 1 kB\n") == ()


class Elsewhere:
    """A host that is this machine behind a shell, with an `nvidia-smi` of the test's."""

    name, is_local = "ssh gpu1", False

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, argv: tuple[str, ...], *, stdin: str = "", timeout_s: float = 60.0) -> HostAnswer:
        path = f"{self.folder}:/usr/bin:/bin"
        return run_words(("env", f"PATH={path}", *argv), stdin=stdin, timeout_s=timeout_s)

    def reach(self, endpoint: Endpoint) -> Endpoint:
        return endpoint

    def close(self) -> None:
        pass


def test_another_host_is_asked_with_a_shell_and_nvidia_smi(tmp_path: Path) -> None:
    tool = tmp_path / "nvidia-smi"
    rows = "0, 143156, 143771, GPU-aa0f\\n1, 10, 143771, GPU-bb0f\\n"  # as two H200 answer
    tool.write_text(f'#!/bin/sh\nprintf "{rows}"\n')
    tool.chmod(0o755)
    ram, first, second = reader_of(Elsewhere(tmp_path))()
    assert (ram.name, first.name, second.name) == ("RAM", "GPU0", "GPU1")
    assert 0 < ram.free_bytes < ram.total_bytes
    assert (first.free_bytes, first.total_bytes) == (143156 * 1024**2, 143771 * 1024**2)
    for visible, names in ((("1",), ["RAM", "GPU1"]), (("GPU-AA",), ["RAM", "GPU0"]), ((), ["RAM"])):
        assert [place.name for place in reader_of(Elsewhere(tmp_path), visible)()] == names
    tool.write_text("#!/bin/sh\necho 'No devices were found'; exit 6\n")
    assert [place.name for place in reader_of(Elsewhere(tmp_path))()] == ["RAM"]
    assert read_lines("garbage\nGPU0 x 3\n") == ()


def test_gpus_are_asked_through_nvml_where_it_is_there(tmp_path: Path) -> None:
    (tmp_path / "pynvml.py").write_text(
        "class NVMLError(Exception): pass\n"
        "class Memory: free, total = 3, 7\n"
        "def nvmlInit():\n"
        "    import os\n"
        "    if os.environ.get('NO_DRIVER'): raise NVMLError\n"
        "def nvmlShutdown(): pass\n"
        "def nvmlDeviceGetCount(): return 2\n"
        "def nvmlDeviceGetHandleByIndex(index): return index\n"
        "def nvmlDeviceGetMemoryInfo(handle): return Memory\n"
        "def nvmlSystemGetDriverVersion(): return b'580.1'\n"
        "def nvmlDeviceGetName(handle): return 'NVIDIA H200'\n"
        "def nvmlDeviceGetUUID(handle): return (b'GPU-00', 'GPU-11')[handle]\n"
    )
    script = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from spectune.launch.memory import read_local_memory\n"
        "visible = eval(sys.argv[1])\n"
        "places = [p for p in read_local_memory(visible) if p.name != 'RAM']\n"
        "print([(p.name, p.free_bytes, p.total_bytes) for p in places])"
    )
    both = "[('GPU0', 3, 7), ('GPU1', 3, 7)]"
    for variable, visible, printed in (
        ("", "None", both),
        ("", "('1', '0')", both),
        ("", "('1',)", "[('GPU1', 3, 7)]"),
        ("", "('GPU-00',)", "[('GPU0', 3, 7)]"),
        ("1", "None", "[]"),
    ):
        ran = subprocess.run(
            ["env", f"NO_DRIVER={variable}", sys.executable, "-c", script, visible],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert ran.stdout.strip() == printed


def test_a_watch_works_with_the_real_clock() -> None:
    assert MemoryWatch(read_local_memory, SystemClock()).obstacle(1) == ""
