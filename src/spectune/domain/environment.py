"""What a study ran on."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """Machine and software of a study: those of spectune, whose servers may run on another host.

    Attributes:
        spectune_version: version of this package.
        python: interpreter version.
        platform: operating system and machine type.
        cpu_model: name the processor gives itself.
        num_cpus: processors this process may use.
        memory_bytes: physical memory.
        libraries: (name, version) of the libraries that bear on speed.
        gpus: name and driver of each GPU of this machine that the server sees; empty where none is, none is
            told of, or the server runs on another host.
    """

    spectune_version: str
    python: str
    platform: str
    cpu_model: str
    num_cpus: int
    memory_bytes: int
    libraries: tuple[tuple[str, str], ...] = ()
    gpus: tuple[str, ...] = ()
