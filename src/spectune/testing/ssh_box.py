"""A real OpenSSH server on 127.0.0.1 for tests, with a client config that reaches it."""

import getpass
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from spectune.testing.recording import free_port
from spectune.testing.systemd_box import die_with_parent

_SSHD = "/usr/sbin/sshd"
HOST = "gpu1"


def obstacle() -> str:
    """Why there is no sshd here, or ""."""
    if not Path(_SSHD).exists():
        return "needs Debian package openssh-server: /usr/sbin/sshd is missing"
    return ""


class SshBox:
    """An sshd whose every session runs inside `prefix` (such as a SystemdBox's).

    With `behind` the client's config reaches it through that one only (ProxyJump).
    """

    def __init__(self, folder: Path, prefix: tuple[str, ...] = (), *, behind: "SshBox | None" = None) -> None:
        """Writes keys and configs, starts the server."""
        self.folder, self.prefix, self.behind = folder.resolve(), prefix, behind
        self.port = free_port()
        self.config = self.folder / "ssh_config"
        self.sockets = Path(tempfile.mkdtemp(prefix="cm"))  # short: a socket's path is bounded
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        self._write_files()
        Path("/run/sshd").mkdir(exist_ok=True)
        self.start()

    @property
    def argv(self) -> tuple[str, ...]:
        """The server's command."""
        return (_SSHD, "-D", "-e", "-f", str(self.folder / "sshd_config"))

    def start(self) -> None:
        """Starts it (again)."""
        with (self.folder / "sshd.log").open("ab") as log:
            self.process = subprocess.Popen(
                self.argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True, preexec_fn=die_with_parent,  # noqa: PLW1509
            )  # fmt: skip
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            try:
                with socket.create_connection(("127.0.0.1", self.port), 1) as client:
                    if client.recv(64).startswith(b"SSH-2.0"):
                        return
            except OSError:
                time.sleep(0.01)
        raise RuntimeError((self.folder / "sshd.log").read_text())

    def sessions(self) -> tuple[int, ...]:
        """Server processes of living connections."""
        listing = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return tuple(int(pid) for pid in listing.read_text().split())

    def cut(self) -> None:
        """SIGKILL to every connection; the server lives on."""
        for pid in self.sessions():
            subprocess.run(["kill", "-s", "KILL", str(pid)], check=False, capture_output=True)

    def down(self) -> None:
        """SIGKILL to the server and every connection."""
        sessions = self.sessions()
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(10)
        for pid in sessions:
            subprocess.run(["kill", "-s", "KILL", str(pid)], check=False, capture_output=True)

    def stop(self) -> None:
        """Ends everything."""
        if self.process.poll() is None:
            self.cut()
            self.process.terminate()
            self.process.wait(10)
        shutil.rmtree(self.sockets, ignore_errors=True)

    def _write_files(self) -> None:
        for key in ("host_key", "user_key"):
            subprocess.run(
                ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", key, "-f", str(self.folder / key)],
                check=True, stdin=subprocess.DEVNULL,
            )  # fmt: skip
        (self.folder / "authorized_keys").write_text((self.folder / "user_key.pub").read_text())
        kind, key, *_ = (self.folder / "host_key.pub").read_text().split()
        (self.folder / "known_hosts").write_text(f"[127.0.0.1]:{self.port} {kind} {key}\n")
        wrap = self.folder / "wrap.sh"
        inside = " ".join(self.prefix)
        wrap.write_text(f'#!/bin/sh\nexec {inside} /bin/sh -c "${{SSH_ORIGINAL_COMMAND:-exec sh}}"\n')
        wrap.chmod(0o755)
        (self.folder / "sshd_config").write_text(_SERVER.format(port=self.port, folder=self.folder))
        user = getpass.getuser()
        text = _CLIENT.format(host=HOST, port=self.port, folder=self.folder, user=user)
        if self.behind is not None:
            text += "  ProxyJump jump\n" + _CLIENT.format(
                host="jump", port=self.behind.port, folder=self.behind.folder, user=user
            )
        self.config.write_text(text)


# SHLVL=1: bash then does not read ~/.bashrc for a remote command.
_SERVER = """\
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/authorized_keys
PidFile {folder}/sshd.pid
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
AllowTcpForwarding yes
MaxSessions 50
MaxStartups 50:30:200
UseDNS no
PrintMotd no
SetEnv SHLVL=1
ForceCommand {folder}/wrap.sh
"""
_CLIENT = """\
Host {host}
  HostName 127.0.0.1
  Port {port}
  User {user}
  IdentityFile {folder}/user_key
  IdentitiesOnly yes
  IdentityAgent none
  UserKnownHostsFile {folder}/known_hosts
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
  ConnectTimeout 5
  LogLevel ERROR
"""
