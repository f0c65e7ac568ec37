"""What `config/models.yaml` may say of where calls go: the names of providers and keys, and their addresses, as texts.

Stricter than a URL may be, so that what is judged here is what is contacted. Opens nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv4Network, IPv6Address
from typing import Final

KINDS: Final = ("anthropic", "responses", "openai", "embedded")  # of providers
PROVIDER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
VARIABLE: Final = re.compile(r"[A-Z_][A-Z0-9_]{0,59}")  # capitals alone: a key that somebody pasted has other letters
PROVIDER_HINT: Final = "letters, digits, `-`, `_` and `.`, at most 40, beginning with a letter or digit"
VARIABLE_HINT: Final = "capital letters, digits and `_`, such as `MY_API_KEY`; the key itself stands in the environment"
HTTP_HINT: Final = "write https, or set this very address in your own config folder"
_URL: Final = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<authority>[^/?#\\]*)(?P<rest>.*)", re.DOTALL)
_HOST: Final = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(?P<port>[0-9]{1,5}))?")
_PATH: Final = re.compile(r"(?:/[A-Za-z0-9._~!$&'()*+,;=:@%-]*)*")
_THIS_MACHINE: Final = IPv4Network("127.0.0.0/8")


@dataclass(frozen=True)
class Address:
    """A base URL that can be used: http or https, a host, nothing secret in it."""

    scheme: str
    host: str

    @property
    def is_local(self) -> bool:
        """localhost, 127.0.0.0/8 and ::1; every other spelling counts as another machine."""
        host = self.host.strip("[]").lower()
        if host == "localhost":
            return True
        try:
            return IPv6Address(host) == IPv6Address("::1") if ":" in host else IPv4Address(host) in _THIS_MACHINE
        except AddressValueError:
            return False

    @property
    def is_insecure(self) -> bool:
        """Whether what is sent there can be read on its way."""
        return self.scheme == "http" and not self.is_local


class AddressError(ValueError):
    """Why a text is no address. Never holds the text, which may hold a password."""


def parse_address(url: str) -> Address:
    """The address that a base URL is. Raises AddressError."""
    match = _URL.fullmatch(url)
    if match is None:
        raise AddressError("it is no URL, such as `https://host/v1`")
    if match["scheme"].lower() not in ("http", "https"):
        raise AddressError("it is neither http nor https")
    if "@" in match["authority"]:
        raise AddressError("it holds a user or a password")
    place = _HOST.fullmatch(match["authority"])
    if place is None:
        raise AddressError("it has no host, or one that cannot be read")
    if place["port"] is not None and not 1 <= int(place["port"]) <= 65535:
        raise AddressError("its port is none of 1 to 65535")
    if place["host"].startswith("["):
        try:
            IPv6Address(place["host"][1:-1])
        except AddressValueError:
            raise AddressError("its host is no IPv6 address") from None
    if "?" in match["rest"] or "#" in match["rest"]:
        raise AddressError("it has a query or a fragment, and only a path may follow the host")
    if not _PATH.fullmatch(match["rest"]):
        raise AddressError("its path has characters that cannot stand there")
    return Address(match["scheme"].lower(), place["host"])
