"""What NVML tells of this machine's GPUs; nothing without the `gpu` extra (nvidia-ml-py) or a driver."""

import importlib
import importlib.util
from dataclasses import dataclass

from spectune.launch.visible_gpus import Visible, is_visible


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU at one moment.

    Attributes:
        index: its place in the order of the PCI bus.
        name: the product's, such as "NVIDIA H200".
        driver: the driver's version.
        free_bytes: memory that a new process could have.
        total_bytes: its memory.
    """

    index: int
    name: str
    driver: str
    free_bytes: int
    total_bytes: int


def read_gpus(visible: Visible) -> tuple[Gpu, ...]:
    """The visible GPUs, in the order of the bus."""
    if importlib.util.find_spec("pynvml") is None:
        return ()
    nvml = importlib.import_module("pynvml")
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return ()
    try:
        driver = _text(nvml.nvmlSystemGetDriverVersion())
        handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
        return tuple(
            Gpu(
                index=index,
                name=_text(nvml.nvmlDeviceGetName(handle)),
                driver=driver,
                free_bytes=int(memory.free),
                total_bytes=int(memory.total),
            )
            for index, handle in enumerate(handles)
            if is_visible(visible, index, _text(nvml.nvmlDeviceGetUUID(handle)))
            for memory in [nvml.nvmlDeviceGetMemoryInfo(handle)]
        )
    except nvml.NVMLError:
        return ()
    finally:
        nvml.nvmlShutdown()


def _text(told: str | bytes) -> str:
    """Older NVML packages tell it as bytes."""
    return told.decode(errors="replace") if isinstance(told, bytes) else told
