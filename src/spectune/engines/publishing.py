"""Where a server can be reached: its own `--host` and `--port`, or what a container publishes. Pure."""

from spectune.domain.endpoint import Endpoint
from spectune.domain.text import is_digits
from spectune.engines.arguments import Flags
from spectune.errors import ConfigError

DEFAULT_HOST = "127.0.0.1"


def endpoint_of(flags: Flags, *, default_port: int) -> Endpoint:
    """The address to connect to; raises ConfigError when the command says it badly.

    Behind `docker run -p HOST:CONTAINER` it is the host's side of the published port; with
    `--network host`, or without a container, the engine's own.
    """
    host, port = flags.value("--host") or DEFAULT_HOST, flags.port(default_port)
    api_key = flags.value("--api-key") or ""
    published = _published(flags.words.command.argv[: flags.words.first], port)
    if published is not None:
        host, port = published
    return Endpoint(host=host, port=port, api_key=api_key)


def _published(before: tuple[str, ...], port: int) -> tuple[str, int] | None:
    """Host and port that `docker run`'s own words publish for the container's port."""
    for place, word in enumerate(before):
        flag, equals, value = word.partition("=")
        if flag not in ("-p", "--publish"):
            continue
        mapping = value if equals else "".join(before[place + 1 : place + 2])
        parts = mapping.partition("/")[0].rsplit(":", 2)
        if len(parts) < 2 or parts[-1] != str(port):
            continue
        if not is_digits(parts[-2]):
            raise ConfigError(
                f"serve command: `{flag} HOST:CONTAINER` must name numbers, got {mapping!r}; write the "
                "host's port out."
            )
        host = parts[0] if len(parts) == 3 else DEFAULT_HOST
        return host, int(parts[-2])
    return None
