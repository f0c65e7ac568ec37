"""Provider addresses: local, insecure and invalid ones."""

from __future__ import annotations

import pytest

from skillrun.library.models_yaml import AddressError, parse_address

pytestmark = [pytest.mark.finding("FZ2", "FZ10"), pytest.mark.row("Z2")]


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost",
        "http://LOCALHOST:1/v1",
        "http://127.0.0.1:65535/v1/",
        "https://127.9.9.9",
        "http://[::1]:80/x",
    ],
)
def test_a_loopback_address_is_local(url: str) -> None:
    address = parse_address(url)
    assert address.is_local
    assert not address.is_insecure


@pytest.mark.parametrize(
    "host",
    ["10.0.0.1", "127.1", "2130706433", "0x7f.0.0.1", "0177.0.0.1", "127.0.0.1.example.org", "localhost.example.org",
     "localhost.", "a.localhost", "0.0.0.0", "[::]", "[::ffff:127.0.0.1]", "[::2]", "example.org"],
)  # fmt: skip
def test_any_other_spelling_of_a_host_is_remote(host: str) -> None:
    assert parse_address(f"http://{host}/v1").is_insecure
    address = parse_address(f"https://{host}:8443/v1/a.b~c/%20")
    assert not address.is_local
    assert not address.is_insecure


@pytest.mark.parametrize(
    "url",
    ["", "x", "localhost:11434/v1", "//host", "file:///etc/passwd", "ftp://host", "http://", "https:///v1", "http://:80",
     "http://user@host", "http://user:secret@host", "http://localhost@evil", "http://localhost\\@evil", "http://h:0",
     "http://h:65536", "http://h:1x", "http://h:", "http://[::1::2]", "http://[::1", "http://h/a b", "http://h/\n",
     "http://h?x=secret", "http://h/v1#secret", "http://h\u3002org", "http://ho st", "http://h%2e", "http://h/\u00e4",
     " http://h", "http://h ", "http:\\\\h", "http://h/\\evil"],
)  # fmt: skip
def test_an_invalid_address_is_rejected_and_not_repeated_in_the_message(url: str) -> None:
    with pytest.raises(AddressError) as caught:
        parse_address(url)
    assert "secret" not in str(caught.value)
    assert "evil" not in str(caught.value)
