"""A real systemd (PID 1 of new namespaces) for tests. Needs root, systemd, dbus and util-linux.

Network, files and users are the machine's own: a unit's 127.0.0.1 is the tests' 127.0.0.1. The box has its
own /run, /etc/systemd/system, /proc, /dev and cgroup tree, and vanishes with the process that made it.
"""

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

_INIT = r"""
set -eu
B=$1
mount -t tmpfs -o mode=755,nosuid,nodev tmpfs /run
mkdir -p /run/systemd/system /run/lock /run/log/journal /run/sshd
mount --bind "$B/lib" /lib/systemd/system
mount --bind "$B/etc" /etc/systemd/system
mkdir -p /var/lib/spectune && mount --bind "$B/kept" /var/lib/spectune
mount -t proc proc /proc
mount --bind /proc/sys /proc/sys; mount -o remount,bind,ro /proc/sys
mount -t cgroup2 cgroup2 /sys/fs/cgroup
d=/run/newdev; mkdir $d; mount -t tmpfs -o mode=755,nosuid tmpfs $d
for n in null zero full random urandom tty; do : >$d/$n; mount --bind /dev/$n $d/$n; done
mkdir $d/pts $d/shm; mount --bind /dev/pts $d/pts; mount -t tmpfs -o mode=1777 tmpfs $d/shm
ln -s pts/ptmx $d/ptmx; ln -s /proc/self/fd $d/fd
ln -s fd/0 $d/stdin; ln -s fd/1 $d/stdout; ln -s fd/2 $d/stderr
mount --move $d /dev; rmdir $d
exec env -i container=sdbox PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
  SYSTEMD_GENERATOR_PATH=/nonexistent SYSTEMD_ENVIRONMENT_GENERATOR_PATH=/nonexistent \
  SYSTEMD_LOG_TARGET=journal /lib/systemd/systemd --system
"""
_STOCK = """
basic.target sysinit.target shutdown.target sockets.target timers.target paths.target slices.target
multi-user.target umount.target final.target exit.target systemd-exit.service local-fs.target network.target
network-online.target systemd-journald.service systemd-journald.socket systemd-journald-dev-log.socket
dbus.socket dbus.service
"""
_WANTS = {
    "default.target": "multi-user.target",
    "sysinit.target.wants/systemd-journald.service": "../systemd-journald.service",
    "sockets.target.wants/systemd-journald.socket": "../systemd-journald.socket",
    "sockets.target.wants/systemd-journald-dev-log.socket": "../systemd-journald-dev-log.socket",
    "sockets.target.wants/dbus.socket": "../dbus.socket",
}
_STANDIN = Path(__file__).with_name("standin_server.py")


def obstacle() -> str:
    """Why no box can be had here, or "": the reason for skipping."""
    if os.geteuid() != 0:
        return "needs root: a systemd of its own for tests"
    for program in ("/lib/systemd/systemd", "/usr/bin/unshare", "/usr/bin/nsenter", "/usr/bin/dbus-daemon"):
        if not Path(program).exists():
            return f"needs Debian package systemd, dbus and util-linux: {program} is missing"
    return ""


def standin_command(port: int, *words: str) -> str:
    """ExecStart of a stand-in server, its words written by the caller."""
    return " ".join([_python(), "-I", "-S", str(_STANDIN), "--port", str(port), *words])


class SystemdBox:
    """A booted box."""

    def __init__(self, folder: Path) -> None:
        """Boots; raises RuntimeError with the console's text when it does not come up."""
        self.folder = folder.resolve()
        self.etc, self.lib, self.kept = (self.folder / name for name in ("etc", "lib", "kept"))
        for each in (self.etc, self.lib, self.kept):
            each.mkdir(parents=True, exist_ok=True)
        self._stock()
        root = Path("/sys/fs/cgroup/unified")
        self._root = root if root.is_dir() else Path("/sys/fs/cgroup")
        self.pid = 0
        self.boot()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def prefix(self) -> tuple[str, ...]:
        """Words before a command that is to run inside."""
        return ("nsenter", "-t", str(self.pid), "-m", "-p", "-C", "-u", "-i", "--")

    def boot(self) -> None:
        """Starts it; after `stop` this is a reboot: /etc stays, /run is empty."""
        self.cgroup = self._root / f"sdbox-{os.getpid()}-{time.monotonic_ns():x}"
        self.cgroup.mkdir()
        console = self.folder / "console.log"
        with console.open("wb") as output:
            self._unshare = subprocess.Popen(
                [
                    "bash", "-c", 'echo 0 >"$1/cgroup.procs"; shift; exec "$@"', "_", str(self.cgroup),
                    "unshare", "--pid", "--fork", "--kill-child", "--mount", "--propagation", "private",
                    "--cgroup", "--uts", "--ipc", "bash", "-c", _INIT, "_", str(self.folder),
                ],
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                start_new_session=True, preexec_fn=die_with_parent,  # noqa: PLW1509
            )  # fmt: skip
        self.pid = self._wait_up(console)
        (self._root / "cgroup.procs").write_text(str(self._unshare.pid))
        state = self.systemctl("is-system-running", "--wait", check=False).strip()
        if state != "running":
            raise RuntimeError(f"box: systemd state {state!r}")

    def stop(self) -> None:
        """Kills PID 1; the kernel ends the rest."""
        if self._unshare.poll() is None:
            os.kill(self.pid, signal.SIGKILL)
            self._unshare.wait(20)
        below = sorted(
            (path for path in self.cgroup.rglob("*") if path.is_dir()), key=lambda path: -len(path.parts)
        )
        for each in (*below, self.cgroup):
            each.rmdir()

    def run(self, *words: str, check: bool = True) -> str:
        """Output of a command inside."""
        ran = subprocess.run(
            [*self.prefix, *words], text=True, capture_output=True, check=False, stdin=subprocess.DEVNULL
        )
        if check and ran.returncode != 0:
            raise RuntimeError(f"{words}: {ran.returncode}: {ran.stdout}{ran.stderr}")
        return ran.stdout

    def systemctl(self, *words: str, check: bool = True) -> str:
        """Output of systemctl inside."""
        return self.run("/usr/bin/systemctl", *words, check=check)

    def show(self, unit: str, name: str) -> str:
        """One property."""
        return self.systemctl("show", "-p", name, "--value", "--", unit).strip()

    def as_user(self, user: str) -> tuple[str, ...]:
        """Words before a command that is to run inside as this user, who may become root by sudo.

        The box gets sudo's settings of its own; those of the machine are not touched.
        """
        sudoers = self.folder / "sudoers"
        sudoers.write_text(f"Defaults !requiretty\n{user} ALL=(root) NOPASSWD: ALL\n")
        sudoers.chmod(0o440)
        self.run("mount", "--bind", str(sudoers), "/etc/sudoers")
        home = ("env", "-u", "XDG_RUNTIME_DIR", "-u", "XDG_CONFIG_HOME", "-u", "XDG_STATE_HOME", "HOME=/")
        return (*self.prefix, "setpriv", f"--reuid={user}", "--regid=nogroup", "--clear-groups", *home)

    def unit(self, name: str, text: str) -> None:
        """Writes a unit file."""
        (self.etc / name).write_text(text)
        self.systemctl("daemon-reload")

    def path(self, inside: str) -> Path:
        """A file of the box seen from outside."""
        return Path(f"/proc/{self.pid}/root{inside}")

    def host_pid(self, inside: str) -> int:
        """The machine's number of a process of the box; 0 where there is none."""
        for pid in self.processes():
            try:
                status = Path(f"/proc/{pid}/status").read_text()
            except OSError:
                continue
            numbers = [line.split()[-1] for line in status.splitlines() if line.startswith("NSpid:")]
            if numbers == [inside]:
                return pid
        return 0

    def processes(self) -> tuple[int, ...]:
        """All processes of the box, as the machine numbers them; groups may vanish meanwhile."""
        found: list[int] = []
        for folder, _, _ in os.walk(self.cgroup):
            try:
                found += [int(pid) for pid in (Path(folder) / "cgroup.procs").read_text().split()]
            except OSError:
                continue
        return tuple(found)

    def _stock(self) -> None:
        for name in _STOCK.split():
            source = Path("/lib/systemd/system") / name
            if source.exists():
                shutil.copyfile(source, self.lib / name)
        for at, to in _WANTS.items():
            link = self.lib / at
            link.parent.mkdir(exist_ok=True)
            link.unlink(missing_ok=True)
            link.symlink_to(to)

    def _wait_up(self, console: Path) -> int:
        deadline = time.monotonic() + 30
        children = Path(f"/proc/{self._unshare.pid}/task/{self._unshare.pid}/children")
        while time.monotonic() < deadline and self._unshare.poll() is None:
            found = children.read_text().split()
            if found and Path(f"/proc/{found[0]}/root/run/systemd/private").exists():
                return int(found[0])
            time.sleep(0.01)
        raise RuntimeError(f"box: systemd did not start: {console.read_text()}")


def die_with_parent() -> None:
    """Runs in a child before exec: SIGKILL when the tests' process ends."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def _python() -> str:
    """The interpreter itself: a venv's needs more time to start."""
    return str(Path(sys.executable).resolve())
