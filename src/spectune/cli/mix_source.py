"""Where `--mix` comes from: a list, a built-in name, a running server's gauges, or a request log."""

import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from spectune.clock import Clock
from spectune.domain.command import HttpRequest
from spectune.domain.endpoint import Endpoint
from spectune.domain.text import shortened
from spectune.errors import ConfigError, ServerUnreachable
from spectune.launch.http_probe import fetch
from spectune.tuning.live_traffic import running_requests
from spectune.workloads.mixes import MIXES, Mix, mix_of_counts, mix_of_log, read_mix

WATCH_S, _POLL_S = 60.0, 0.5
_HOST = re.compile(r"[\w.:%-]+", re.ASCII)
_ASK_S = 10.0


def load_mix(text: str, clock: Clock, *, watch_s: float = WATCH_S) -> Mix:
    """The mix that `--mix` names.

    Args:
        text: `LEVEL:SHARE,…`, a built-in name, `http://HOST:PORT` of a running server, or a request log.
        clock: source of time.
        watch_s: how long a running server is watched.

    Raises:
        ConfigError: none of these, or nothing was running.
    """
    found = read_mix(text)
    if found is not None:
        return found
    if is_watched(text):
        return _watched(text, clock, watch_s)
    path, shown = Path(text), shortened(text)
    try:
        return mix_of_log(path.read_text(encoding="utf-8-sig"), text)
    except UnicodeDecodeError as exc:
        raise ConfigError(f"--mix {shown}: `the file is UTF-8 text` must hold, it is not.") from exc
    except OSError as exc:
        raise ConfigError(
            f"--mix {shown}: `LEVEL:SHARE,…, {', '.join(MIXES)}, a server's address or a request log` must "
            f"be given, got: {exc.strerror}."
        ) from exc


def is_watched(text: str) -> bool:
    """Whether a running server is watched for this mix, which takes a while."""
    return text.startswith(("http://", "https://"))


def _watched(address: str, clock: Clock, watch_s: float) -> Mix:
    """The mix of a running server, from its gauge of running requests."""
    ask, address = _asking(address), shortened(address)
    counts: list[int] = []
    give_up_s = clock.monotonic_s() + watch_s
    while clock.monotonic_s() < give_up_s:
        count = running_requests(ask)
        if count is not None:
            counts.append(count)
        elif not counts:
            raise ConfigError(
                f"--mix {address}: `/metrics tells the running requests` must hold, it does not; start the "
                "server with its metrics on, or give LEVEL:SHARE,…"
            )
        clock.sleep(_POLL_S)
    found = mix_of_counts(counts)
    if not found:
        raise ConfigError(
            f"--mix {address}: `something runs while it is watched` must hold, nothing did in {watch_s:g} s."
        )
    return found


def _asking(address: str) -> Callable[[HttpRequest], str]:
    try:
        parts = urlsplit(address)
        scheme, host, port, user = parts.scheme, parts.hostname, parts.port, parts.username
    except ValueError:
        scheme, host, port, user = "", None, None, None
    if scheme != "http" or not host or port is None or user or not _HOST.fullmatch(host):
        raise ConfigError("--mix: `http://HOST:PORT` must be the form of a server's address.")
    endpoint = Endpoint(host=host, port=port)

    shown = shortened(address)

    def ask(request: HttpRequest) -> str:
        try:
            answer = fetch(endpoint, request, timeout_s=_ASK_S)
        except ServerUnreachable as error:
            raise ConfigError(f"--mix {shown}: `the server answers` must hold: {error}") from error
        return answer.body if answer.status == 200 else ""

    return ask
