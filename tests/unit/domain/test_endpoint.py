import pytest

from spectune.domain.endpoint import Endpoint
from spectune.errors import ConfigError


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:81"),
        ("0.0.0.0", "http://127.0.0.1:81"),
        ("::", "http://[::1]:81"),
        ("gpu1", "http://gpu1:81"),
    ],
)
def test_a_wildcard_is_reached_through_loopback(host: str, url: str) -> None:
    assert Endpoint(host=host, port=81).base_url == url


def test_the_key_is_sent_but_never_shown() -> None:
    endpoint = Endpoint(host="h", port=1, api_key="s3cret")
    assert endpoint.headers == (("Authorization", "Bearer s3cret"),)
    assert "s3cret" not in repr(endpoint)


@pytest.mark.parametrize("key", ["s3cret\n", "s3crét", "s3cret\udcff"])
def test_a_key_that_no_header_can_carry_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(ConfigError, match="printable ASCII") as refused:
        Endpoint(host="h", port=1, api_key=key)
    assert "s3cr" not in str(refused.value)
