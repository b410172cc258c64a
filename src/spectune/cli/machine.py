"""What this machine and its software are, for the study's record."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from spectune import __version__
from spectune.domain.environment import Environment
from spectune.launch.nvml import read_gpus
from spectune.launch.visible_gpus import Visible

_LIBRARIES = ("numpy", "onnxruntime", "tokenizers", "aiohttp")


def read_environment(visible: Visible = None) -> Environment:
    """The environment of a study begun now, with those of its GPUs that the server sees."""
    return Environment(
        spectune_version=__version__,
        python=platform.python_version(),
        platform=f"{platform.system()} {platform.release()} {platform.machine()}",
        cpu_model=_cpu_model(),
        num_cpus=len(os.sched_getaffinity(0)),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        libraries=tuple((name, found) for name in _LIBRARIES if (found := _version(name))),
        gpus=tuple(f"{gpu.name}, driver {gpu.driver}" for gpu in read_gpus(visible)),
    )


def _cpu_model() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.processor() or "unknown CPU"
    names = [line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown CPU"


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
