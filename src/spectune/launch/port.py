"""Whether a TCP port is free to listen on."""

import contextlib
import errno
import socket

from spectune.clock import Clock
from spectune.domain.endpoint import Endpoint
from spectune.errors import ConfigError, LaunchError, PortInUse


def check_port_free(endpoint: Endpoint) -> None:
    """Tries to bind the endpoint for a moment.

    Raises:
        PortInUse: something listens there.
        ConfigError: this machine has no such address.
    """
    family = socket.AF_INET6 if ":" in endpoint.host else socket.AF_INET
    with socket.socket(family) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((endpoint.host, endpoint.port))
        except socket.gaierror as error:
            raise ConfigError(f"serve command: --host {endpoint.host!r} is not an address here.") from error
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise PortInUse(
                    f"port {endpoint.port} on {endpoint.host}: `the port is free` must hold, but another "
                    "process listens there; stop it, or give the serve command another --port."
                ) from error
            raise ConfigError(
                f"serve command: cannot listen on {endpoint.host}:{endpoint.port} ({error.strerror})."
            ) from error


def wait_port_free(endpoint: Endpoint, *, deadline_s: float, clock: Clock) -> None:
    """Waits until the endpoint can be bound again; raises LaunchError when it stays taken."""
    give_up_s = clock.monotonic_s() + deadline_s
    while True:
        with contextlib.suppress(PortInUse):
            check_port_free(endpoint)
            return
        if clock.monotonic_s() > give_up_s:
            raise LaunchError(f"port {endpoint.port} is still taken {deadline_s:g} s after the server ended.")
        clock.sleep(0.05)
