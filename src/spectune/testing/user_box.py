"""A real `systemd --user` with a journal of its own for tests, in namespaces of its own. Needs root."""

import os
import signal
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from spectune.testing.systemd_box import die_with_parent

_INIT = r"""
set -eu
B=$1
mount -t tmpfs -o mode=755 tmpfs /run; mkdir -p /run/systemd/system /run/log/journal
mount -t cgroup2 cgroup2 /sys/fs/cgroup
c=/sys/fs/cgroup/user.slice/user-0.slice/user@0.service
mkdir -p $c/init.scope /sys/fs/cgroup/system.slice/systemd-journald.service
( echo $BASHPID > /sys/fs/cgroup/system.slice/systemd-journald.service/cgroup.procs
  exec /lib/systemd/systemd-journald ) &
echo 0 > $c/init.scope/cgroup.procs
for i in $(seq 200); do [ -S /run/systemd/journal/stdout ] && break; sleep 0.01; done
exec env -i HOME="$B" PATH=/usr/local/bin:/usr/bin:/bin XDG_RUNTIME_DIR="$B/run" XDG_CONFIG_HOME="$B/config" \
  SYSTEMD_GENERATOR_PATH=/nonexistent SYSTEMD_LOG_TARGET=journal \
  /lib/systemd/systemd --user --unit=basic.target
"""


class UserBox:
    """A booted user manager; its processes are seen here under their own numbers."""

    def __init__(self, folder: Path) -> None:
        """Boots; raises RuntimeError when it does not come up."""
        self.folder = folder.resolve()
        self.runtime, self.config = self.folder / "run", self.folder / "config"
        self.units = self.config / "systemd" / "user"
        self.units.mkdir(parents=True)
        self.runtime.mkdir(mode=0o700)
        root = Path("/sys/fs/cgroup/unified")
        root = root if root.is_dir() else Path("/sys/fs/cgroup")
        self.cgroup = root / f"sduser-{os.getpid()}-{time.monotonic_ns():x}"
        self.cgroup.mkdir()
        self._process = subprocess.Popen(
            [
                "bash", "-c", 'echo 0 >"$1/cgroup.procs"; shift; exec "$@"', "_", str(self.cgroup),
                "unshare", "--mount", "--propagation", "private", "--cgroup",
                "bash", "-c", _INIT, "_", str(self.folder),
            ],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True, preexec_fn=die_with_parent,  # noqa: PLW1509
        )  # fmt: skip
        give_up_s = time.monotonic() + 30
        while not (self.runtime / "systemd" / "private").exists():
            if self._process.poll() is not None or time.monotonic() > give_up_s:
                raise RuntimeError("user box: systemd --user did not start")
            time.sleep(0.01)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def prefix(self) -> tuple[str, ...]:
        """Words before a command that is to run as this user inside."""
        return (
            "nsenter", "-t", str(self._process.pid), "-m", "-C", "--", "env",
            f"XDG_RUNTIME_DIR={self.runtime}", f"XDG_CONFIG_HOME={self.config}",
        )  # fmt: skip

    def systemctl(self, *words: str) -> str:
        """Output of `systemctl --user`."""
        ran = subprocess.run(
            [*self.prefix, "systemctl", "--user", *words],
            text=True, capture_output=True, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        return ran.stdout.strip()

    def stop(self) -> None:
        """Kills everything in its cgroup."""
        give_up_s = time.monotonic() + 10
        while time.monotonic() < give_up_s:
            left = [
                int(pid)
                for folder, _, _ in os.walk(self.cgroup)
                for pid in (Path(folder) / "cgroup.procs").read_text().split()
            ]
            if not left:
                break
            for pid in left:
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)
        self._process.wait(10)
        for folder, _, _ in sorted(os.walk(self.cgroup), key=lambda found: -len(found[0])):
            Path(folder).rmdir()
