"""Which of a machine's GPUs a server can use: CUDA_VISIBLE_DEVICES of its command, else of its environment.

On a machine of several GPUs others come and go on those that are not ours; their memory must not be taken for
that of the server before. What is not written as indices or UUIDs (MIG parts, a shell's `$GPU`) is taken for
every GPU.
"""

import re
from collections.abc import Mapping

from spectune.domain.command import Command

VARIABLE = "CUDA_VISIBLE_DEVICES"
_SET = re.compile(
    rf"(?P<around>['\"]){VARIABLE}=(?P<within>.*?)(?P=around)"
    rf"|(?<![\w'\"-]){VARIABLE}=(?P<value>(?:'[^']*'|\"[^\"]*\"|[^\s;&|()<>'\"])*)",
    re.DOTALL,
)
"""As a shell's text has it: the whole assignment in quotes, or its value in them, or none."""
_QUOTED = re.compile(r"(['\"])(.*)\1", re.DOTALL)
_ENTRY = re.compile(r"[0-9]+|GPU-[0-9a-fA-F-]+")

Visible = tuple[str, ...] | None
"""Indices and UUIDs or their beginnings, in the variable's order; None: every GPU."""


def visible_gpus(command: Command, inherited: Mapping[str, str]) -> Visible:
    """The GPUs that the server started by `command` sees.

    Args:
        command: the variable may stand in its environment, behind `env`, in a shell's text or a container's
            `-e`; the last one holds.
        inherited: the environment that the server is started with: ours, or that of its unit or container.

    >>> visible_gpus(Command(argv=("env", "CUDA_VISIBLE_DEVICES=1,2", "vllm", "serve", "m")), {})
    ('1', '2')
    """
    told = [found for word in command.argv for found in _told(word)]
    own = dict(command.env).get(VARIABLE, inherited.get(VARIABLE))
    if told:
        return told[-1]
    return None if own is None else _listed(own)


def is_visible(visible: Visible, index: int, uuid: str) -> bool:
    """Whether the GPU of this index (of NVML, in the order of the PCI bus) and UUID is among them."""
    if visible is None:
        return True
    return any(
        entry == str(index) or (entry.startswith("GPU-") and uuid.lower().startswith(entry.lower()))
        for entry in visible
    )


def _told(word: str) -> tuple[Visible, ...]:
    """What each assignment in a word says: the word is one, as behind `env`, or a shell's text."""
    name, _, rest = word.partition("=")
    whole = _listed(rest) if name == VARIABLE else None
    if whole is not None:
        return (whole,)
    return tuple(_listed(_value(found)) for found in _SET.finditer(word))


def _value(found: re.Match[str]) -> str:
    if found["around"]:
        return found["within"]
    quoted = _QUOTED.fullmatch(found["value"])
    return quoted[2] if quoted else found["value"]


def _listed(value: str) -> Visible:
    """The entries of a value; none where it is empty, None (every GPU) where it is no list of them."""
    if value in ("", "-1"):
        return ()
    entries = tuple(entry.strip() for entry in value.split(","))
    return entries if all(_ENTRY.fullmatch(entry) for entry in entries) else None
