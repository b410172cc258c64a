import json
import subprocess
import sys
from pathlib import Path

import pytest

NVML = """
import os
class NVMLError(Exception): pass
class Memory: free, total = 3, 7
def nvmlInit():
    if os.environ.get('FAILS') == 'init': raise NVMLError
def nvmlShutdown(): print('shut down')
def nvmlSystemGetDriverVersion(): return b'580.159.04'
def nvmlDeviceGetCount(): return 2
def nvmlDeviceGetHandleByIndex(index): return index
def nvmlDeviceGetMemoryInfo(handle):
    if os.environ.get('FAILS') == 'memory': raise NVMLError
    return Memory
def nvmlDeviceGetUUID(handle): return ('GPU-00', b'GPU-11')[handle]
def nvmlDeviceGetName(handle): return (b'NVIDIA H200', 'NVIDIA H100')[handle]
"""
SCRIPT = """
import dataclasses, json, sys
sys.path.insert(0, sys.argv[1])
from spectune.launch.nvml import read_gpus
visible = json.loads(sys.argv[2])
found = read_gpus(None if visible is None else tuple(visible))
print(json.dumps([dataclasses.astuple(gpu) for gpu in found]))
"""
H200 = [0, "NVIDIA H200", "580.159.04", 3, 7]
H100 = [1, "NVIDIA H100", "580.159.04", 3, 7]


def read(folder: Path, visible: list[str] | None, fails: str = "") -> tuple[object, bool]:
    """What is told, and whether NVML was shut down."""
    ran = subprocess.run(
        ["env", f"FAILS={fails}", sys.executable, "-c", SCRIPT, str(folder), json.dumps(visible)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    *before, told = ran.stdout.splitlines()
    found: object = json.loads(told)
    return found, before == ["shut down"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pynvml.py").write_text(NVML)
    return tmp_path


def test_each_gpu_is_told_with_its_driver(folder: Path) -> None:
    assert read(folder, None) == ([H200, H100], True)


def test_others_are_not_told(folder: Path) -> None:
    assert read(folder, ["1"]) == ([H100], True)
    assert read(folder, ["GPU-00"]) == ([H200], True)
    assert read(folder, []) == ([], True)


def test_no_driver_and_a_driver_that_fails_are_no_gpus(folder: Path) -> None:
    assert read(folder, None, fails="init") == ([], False)
    assert read(folder, None, fails="memory") == ([], True)
