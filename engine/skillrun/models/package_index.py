"""Locates a pinned wheel, using pip's settings and the pages of the package index.

Runs no program, and reads nothing from the current folder: every path in pip's settings must be absolute.
"""

from __future__ import annotations

import os
import re
import ssl
import sys
from collections.abc import Mapping
from configparser import ConfigParser
from configparser import Error as BadConfig
from contextlib import suppress
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urldefrag, urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass, url2pathname

from skillrun.syntax.diagnostics import SkillrunError

if TYPE_CHECKING:
    import httpx2

PYPI = "https://pypi.org/simple"
SECONDS = 30  # timeout while no data arrives
MAX_PAGE = 10 * 2**20
MAX_WHEEL = 512 * 2**20
_OPTIONS = ("index-url", "extra-index-url", "find-links", "no-index", "trusted-host", "cert", "client-cert", "proxy")
_WHEEL = re.compile(r"(?P<name>[^-]+)-(?P<version>[^-]+)(-\d[^-]*)?-[^-]+-[^-]+-[^-]+\.whl")


@dataclass(frozen=True)
class Wheel:
    """A wheel in an index or on this machine. `sha256` is the hash that the index gives, and is empty if it gives
    none."""

    name: str
    url: str
    sha256: str = ""

    @property
    def path(self) -> Path | None:
        return _file_path(self.url)


@dataclass(frozen=True)
class IndexSettings:
    """The settings that `pip download` would use, from environment variables and configuration files."""

    index_urls: tuple[str, ...] = (PYPI,)
    find_links: tuple[str, ...] = ()
    trusted_hosts: tuple[str, ...] = ()
    cert: str = ""
    client_cert: str = ""
    proxy: str = ""
    netrc: str = ""

    def open_client(self) -> httpx2.AsyncClient:
        """Return a client for these settings. It follows redirects, because mirrors use them; the wheel's hash is
        checked later."""
        import httpx2

        from skillrun.models.transport import limit_body

        more: dict[str, Any] = {"proxy": self.proxy} if self.proxy else {}
        if self.netrc:
            with suppress(OSError, SyntaxError):  # as pip does; netrc.NetrcParseError is a SyntaxError
                more["auth"] = httpx2.NetRCAuth(self.netrc)
        return httpx2.AsyncClient(
            headers={"Accept-Encoding": "identity", "User-Agent": "skillrun"},
            timeout=SECONDS,
            follow_redirects=True,
            verify=self._ssl_context(),
            mounts={f"https://{host}": self._insecure_transport(host) for host in self.trusted_hosts},
            event_hooks={"response": [limit_body(MAX_WHEEL)]},
            **more,
        )

    def _insecure_transport(self, host: str) -> httpx2.AsyncHTTPTransport:
        """Return a transport that does not verify certificates, for a `trusted-host` of pip. The wheel's hash is
        checked later."""
        import httpx2

        proxy = self.proxy or ("" if proxy_bypass(host) else getproxies().get("https", ""))
        return httpx2.AsyncHTTPTransport(verify=False, proxy=proxy or None)

    def _ssl_context(self) -> ssl.SSLContext | bool:
        if not (self.cert or self.client_cert):
            return True
        try:
            folder = bool(self.cert) and Path(self.cert).is_dir()
            context = ssl.create_default_context(
                cafile=None if folder else self.cert or None, capath=self.cert if folder else None
            )
            if self.client_cert:
                context.load_cert_chain(self.client_cert)
        except OSError as error:
            raise SkillrunError(f"pip's certificate {self.cert or self.client_cert} cannot be used: {error}") from None
        return context


def read_settings(environ: Mapping[str, str]) -> IndexSettings:
    """Return pip's settings. Each is read from its `PIP_…` variable, or else from the first of pip's files that
    contains it. Raises `SkillrunError` for a relative path, which could point to a file of the project."""
    values = _read_options(environ)
    proxy = values["proxy"]
    index = [] if values["no-index"].lower() in {"1", "y", "yes", "t", "true", "on"} else [values["index-url"] or PYPI]
    more = values["extra-index-url"].split() if index else []
    cert = values["cert"] or environ.get("REQUESTS_CA_BUNDLE", "") or environ.get("CURL_CA_BUNDLE", "")
    home = environ.get("NETRC") or "~/.netrc"
    return IndexSettings(
        index_urls=tuple(url.rstrip("/") for url in (*index, *more)),
        find_links=tuple(
            place if "://" in place else _require_absolute("find-links", place) for place in _split_find_links(values)
        ),
        trusted_hosts=tuple(values["trusted-host"].split()),
        cert=_require_absolute("cert", cert),
        client_cert=_require_absolute("client-cert", values["client-cert"]),
        proxy=proxy if not proxy or "://" in proxy else f"http://{proxy}",
        netrc=netrc if (netrc := _require_absolute("NETRC", home)) and Path(netrc).is_file() else "",
    )


def _split_find_links(values: Mapping[str, str]) -> list[str]:
    """Split `find-links` into locations. If it names a single folder, the folder's name may contain spaces."""
    text = values["find-links"].strip()
    return [text] if text and Path(text).expanduser().is_absolute() and Path(text).is_dir() else text.split()


def _read_options(environ: Mapping[str, str]) -> dict[str, str]:
    files = [_read_config(path) for path in _config_files(environ)]
    values: dict[str, str] = {}
    for option in _OPTIONS:
        texts = [environ.get(f"PIP_{option.upper().replace('-', '_')}", "")]
        texts += [file.get(section, option, fallback="") for file in files for section in ("download", "global")
                 if file.has_section(section)]  # fmt: skip
        values[option] = next((text for text in texts if text), "")
    return values


def _config_files(environ: Mapping[str, str]) -> list[Path]:
    """Return pip's configuration files, highest precedence first: `PIP_CONFIG_FILE`, then the files of this Python, the
    user and the machine."""
    import platformdirs

    name = "pip.ini" if os.name == "nt" else "pip.conf"
    config_file = environ.get("PIP_CONFIG_FILE", "")
    if config_file == os.devnull:
        return []
    users = [platformdirs.user_config_path("pip", appauthor=False, roaming=True), Path("~/.config/pip").expanduser()]
    machine = platformdirs.site_config_dir("pip", appauthor=False, multipath=True).split(os.pathsep)
    folders = [Path(sys.prefix), *users, Path("~/.pip").expanduser(), *map(Path, machine), Path("/etc")]
    paths = [Path(_require_absolute("PIP_CONFIG_FILE", config_file))] if config_file else []
    return [*paths, *(folder / name for folder in folders if folder.is_absolute())]


def _read_config(path: Path) -> ConfigParser:
    """Read a pip configuration file. Like pip, ignore the file if it cannot be read. Raises `SkillrunError` if it is
    invalid."""
    parser = ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string(path.read_text(encoding="utf-8"))
    except OSError:
        pass
    except (UnicodeError, BadConfig) as error:
        reason = str(error).splitlines()[0]
        raise SkillrunError(f"pip's settings in {path} cannot be read: {reason}", "Correct the file.") from None
    return parser


def _require_absolute(name: str, place: str) -> str:
    path = Path(place).expanduser()
    if place and not path.is_absolute():
        message = f"pip's setting `{name}` is {place}, which is relative to the current folder"
        raise SkillrunError(message, "Give it an absolute path.")
    return str(path) if place else ""


# -- pages ---------------------------------------------------------------------------------------------------------


def list_wheels(folder: Path, package: str, version: str) -> list[Wheel]:
    """Return the wheels of a version in a local folder."""
    names = sorted(path.name for path in folder.glob("*.whl")) if folder.is_dir() else []
    return [Wheel(name, (folder / name).as_uri()) for name in names if _is_wheel_for(name, package, version)]


def parse_wheel_links(page: str, url: str, package: str, version: str) -> list[Wheel]:
    """Return the wheels of a version that an index page links to (PEP 503)."""
    links = _LinkParser()
    links.feed(page)
    wheels = []
    for link in links.hrefs:
        address, fragment = urldefrag(urljoin(urljoin(url, links.base), link))
        name = unquote(urlsplit(address).path).rpartition("/")[2]
        schemes = {"http", "https", urlsplit(url).scheme}
        if _is_wheel_for(name, package, version) and urlsplit(address).scheme in schemes:
            hashed = re.fullmatch(r"sha256=([0-9a-fA-F]{64})", fragment)
            wheels.append(Wheel(name, _add_credentials(address, url), hashed[1].lower() if hashed else ""))
    return wheels


def package_page_url(index_url: str, package: str) -> str:
    return f"{index_url}/{_normalize_name(package)}/"


def local_folder(place: str) -> Path | None:
    """Return the local folder that a location in pip's settings refers to, or None if the location is a network
    address."""
    return _file_path(place) if "://" in place else Path(place)


class _LinkParser(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.base = ""
        self.hrefs: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        href = dict(attrs).get("href") or ""
        if tag == "base":
            self.base = self.base or href
        elif tag == "a" and href:
            self.hrefs.append(href)


def _file_path(url: str) -> Path | None:
    parts = urlsplit(url)
    return Path(url2pathname(parts.path)) if parts.scheme == "file" else None


def _add_credentials(address: str, page: str) -> str:
    """Return a link with the page's credentials added if the link has none and points to the same server."""
    link, page_url = urlsplit(address), urlsplit(page)
    user, _, server = page_url.netloc.rpartition("@")
    return (
        link._replace(netloc=page_url.netloc).geturl()
        if user and (link.scheme, link.netloc) == (page_url.scheme, server)
        else address
    )


def _is_wheel_for(name: str, package: str, version: str) -> bool:
    match = _WHEEL.fullmatch(name)
    return (
        match is not None and _normalize_name(match["name"]) == _normalize_name(package) and match["version"] == version
    )


def _normalize_name(package: str) -> str:
    return re.sub(r"[-_.]+", "-", package).lower()
