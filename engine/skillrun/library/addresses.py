"""Validates provider names, key variables and base URLs of `config/models.yaml`.

Stricter than the URL standard, so that requests go to exactly the address that was validated. Opens no connections.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv4Network, IPv6Address
from typing import Final

PROVIDER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
VARIABLE: Final = re.compile(r"[A-Z_][A-Z0-9_]{0,59}")  # only capitals, because a pasted key contains other letters
PROVIDER_HINT: Final = "use at most 40 letters, digits, `-`, `_` and `.`, starting with a letter or digit"
VARIABLE_HINT: Final = (
    "use capital letters, digits and `_`, such as `MY_API_KEY`; set the key itself in the environment"
)
HTTP_HINT: Final = "use https, or set exactly this address in your config folder"
_URL: Final = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<authority>[^/?#\\]*)(?P<rest>.*)", re.DOTALL)
_HOST: Final = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(?P<port>[0-9]{1,5}))?")
_PATH: Final = re.compile(r"(?:/[A-Za-z0-9._~!$&'()*+,;=:@%-]*)*")
_THIS_MACHINE: Final = IPv4Network("127.0.0.0/8")


@dataclass(frozen=True)
class Address:
    """A valid base URL: http or https, with a host and without secrets."""

    scheme: str
    host: str

    @property
    def is_local(self) -> bool:
        """Whether the host is localhost, in 127.0.0.0/8, or ::1; any other spelling counts as remote."""
        host = self.host.strip("[]").lower()
        if host == "localhost":
            return True
        try:
            return IPv6Address(host) == IPv6Address("::1") if ":" in host else IPv4Address(host) in _THIS_MACHINE
        except AddressValueError:
            return False

    @property
    def is_insecure(self) -> bool:
        """Whether requests to this address are sent unencrypted over the network."""
        return self.scheme == "http" and not self.is_local


class AddressError(ValueError):
    """Raised for a text that is not a valid address. The message never contains the text, because it can include a
    password."""


def parse_address(url: str) -> Address:
    """Parse a base URL. Raises AddressError."""
    match = _URL.fullmatch(url)
    if match is None:
        raise AddressError("it is not a URL such as `https://host/v1`")
    if match["scheme"].lower() not in ("http", "https"):
        raise AddressError("its scheme is not http or https")
    if "@" in match["authority"]:
        raise AddressError("it contains a user or a password")
    place = _HOST.fullmatch(match["authority"])
    if place is None:
        raise AddressError("its host is missing or invalid")
    if place["port"] is not None and not 1 <= int(place["port"]) <= 65535:
        raise AddressError("its port is not between 1 and 65535")
    if place["host"].startswith("["):
        try:
            IPv6Address(place["host"][1:-1])
        except AddressValueError:
            raise AddressError("its host is not a valid IPv6 address") from None
    if "?" in match["rest"] or "#" in match["rest"]:
        raise AddressError("it has a query or a fragment; only a path is allowed after the host")
    if not _PATH.fullmatch(match["rest"]):
        raise AddressError("its path contains invalid characters")
    return Address(match["scheme"].lower(), place["host"])
