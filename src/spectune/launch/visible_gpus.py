"""Which of a machine's GPUs a server can use: CUDA_VISIBLE_DEVICES of its command, else of our environment.

On a machine of several GPUs others come and go on those that are not ours; their memory must not be taken for
that of the server before. What is not written as indices or UUIDs (MIG parts) is taken for every GPU.
"""

import re
from collections.abc import Mapping

from spectune.domain.command import Command

VARIABLE = "CUDA_VISIBLE_DEVICES"
_SET = re.compile(rf"(?<![\w-]){VARIABLE}=['\"]?([\w,-]*)")
_ENTRY = re.compile(r"\d+|GPU-[0-9a-fA-F-]+")

Visible = tuple[str, ...] | None
"""Indices and UUIDs or their beginnings, in the variable's order; None: every GPU."""


def visible_gpus(command: Command, inherited: Mapping[str, str]) -> Visible:
    """The GPUs that the server started by `command` sees.

    Args:
        command: the variable may stand in its environment, behind `env`, in a shell's text or a container's
            `-e`; the last one holds.
        inherited: the environment that the server inherits.

    >>> visible_gpus(Command(argv=("env", "CUDA_VISIBLE_DEVICES=1,2", "vllm", "serve", "m")), {})
    ('1', '2')
    """
    told = [found for word in command.argv for found in _SET.findall(word)]
    own = dict(command.env).get(VARIABLE)
    value = told[-1] if told else own if own is not None else inherited.get(VARIABLE)
    if value is None:
        return None
    entries = tuple(entry.strip() for entry in value.split(",") if entry.strip())
    if entries == ("-1",):
        return ()
    return entries if all(_ENTRY.fullmatch(entry) for entry in entries) else None


def is_visible(visible: Visible, index: int, uuid: str) -> bool:
    """Whether the GPU of this index (of NVML, in the order of the PCI bus) and UUID is among them."""
    if visible is None:
        return True
    return any(
        entry == str(index) or (entry.startswith("GPU-") and uuid.lower().startswith(entry.lower()))
        for entry in visible
    )
