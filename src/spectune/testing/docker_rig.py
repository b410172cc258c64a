"""A machine with the fake docker on its PATH and one container, for tests."""

import json
import os
import secrets
import shutil
import sys
from pathlib import Path

from spectune.launch.container_text import Container
from spectune.launch.docker_service import DockerService
from spectune.launch.local_host import LocalHost
from spectune.testing import fake_docker


class DockerRig:
    """Containers in a folder, a `docker` that knows them, and a host that uses it."""

    def __init__(self, folder: Path) -> None:
        """Nothing is there yet."""
        self.folder, self._bin = folder / "containers", folder / "bin"
        self._bin.mkdir(parents=True)
        tool = self._bin / "docker"
        tool.write_text(f'#!/bin/sh\nexec {sys.executable} -S {fake_docker.__file__} "$@"\n')
        tool.chmod(0o755)
        self.env = {
            "PATH": f"{self._bin}:{os.environ['PATH']}",
            "FAKE_DOCKER": str(self.folder),
            "XDG_RUNTIME_DIR": str(folder),
        }
        self.host = LocalHost(prefix=("env", *(f"{name}={value}" for name, value in self.env.items())))
        self.name = f"llm-{secrets.token_hex(4)}"  # spectune's state on a host goes by the name
        self.service = DockerService(self.host, self.name)
        self.spare = self.service.spare_name

    def add(self, *argv: str, labels: dict[str, str] | None = None, is_running: bool = True) -> Container:
        """The container, on the host's network, started unless told not to be."""
        definition = fake_docker.inspected(
            self.name, argv, env=("HF_TOKEN=hf_abc",), labels=labels, host={"NetworkMode": "host"}
        )
        fake_docker.add(self.folder, definition)
        if is_running:
            assert self.host.run(("docker", "start", "--", self.name)).status == 0
        return self.service.container()

    def calls(self, *commands: str) -> list[list[str]]:
        """What docker was asked, by these commands."""
        lines = (self.folder / "calls").read_text("utf-8").splitlines()
        return [words for line in lines if (words := json.loads(line))[0] in commands]

    def close(self) -> None:
        """Ends every container."""
        (self.folder / "no-daemon").unlink(missing_ok=True)
        shutil.rmtree(self.service.folder(self.service.facts()), ignore_errors=True)  # a watchdog ends then
        for name in (self.name, self.spare):
            self.host.run(("docker", "rm", "-f", "--", name))
        shutil.rmtree(self.folder, ignore_errors=True)
