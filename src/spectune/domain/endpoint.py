"""Where a server listens, and what it asks of a client."""

from dataclasses import dataclass, field

from spectune.errors import ConfigError

_ANY_HOST = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104  (read, not bound)


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """An HTTP server's address.

    Attributes:
        host: as in the serve command; a wildcard is reached through the loopback address.
        port: TCP port.
        api_key: sent as a bearer token; "" for none. Never shown.

    >>> Endpoint(host="0.0.0.0", port=8000).base_url
    'http://127.0.0.1:8000'
    """

    host: str
    port: int
    api_key: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        """Checks what HTTP cannot carry."""
        if not (self.api_key.isascii() and self.api_key.isprintable()):
            raise ConfigError(
                "serve command: `the API key is printable ASCII` must hold, or no request could carry it; "
                "give another one."
            )

    @property
    def connect_host(self) -> str:
        """The host to connect to."""
        return _ANY_HOST.get(self.host, self.host)

    @property
    def base_url(self) -> str:
        """Scheme, host and port, without a trailing slash."""
        host = f"[{self.connect_host}]" if ":" in self.connect_host else self.connect_host
        return f"http://{host}:{self.port}"

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """What every request carries."""
        return (("Authorization", f"Bearer {self.api_key}"),) if self.api_key else ()
