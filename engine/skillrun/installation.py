"""Finds the distribution that this program is installed from, and the command that adds an extra to it."""

from __future__ import annotations

import json
import shlex
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

DISTRIBUTION: Final = "skillrun-workflows"
FORMER_NAME: Final = "skillrun"  # on the package index, an unrelated package


def extra_hint(extra: str) -> str:
    """Return the command that installs an extra, such as `editor`, from where this program was installed.

    The distribution's name alone is not safe: anyone could register it on a package index.
    """
    if target := _install_target(extra):
        return f"`{shlex.quote(sys.executable)} -m pip install {target}`"
    return f"in a checkout of skillrun, `pip install '.[{extra}]'`"


def has_local_model() -> bool:
    """Whether the extra `local` is installed, which runs the small embedded model."""
    return find_spec("xllamacpp") is not None


def find_conflict() -> str:
    """Return a message about an installed distribution called `skillrun`; empty if there is none.

    The one on the package index consists of an empty `skillrun/__init__.py`, which replaces this program's file or,
    next to an editable install, hides the whole program. Removing either one deletes shared files.
    """
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        other = distribution(FORMER_NAME)
    except PackageNotFoundError:
        return ""
    if any(script.name == "skillrun" for script in other.entry_points):
        return f"skillrun {other.version} is this program under its former name"
    return f"skillrun {other.version} is an unrelated package that overwrites files of this program"


def _install_target(extra: str) -> str:
    """Return the pip arguments for this installation with an extra; empty if its origin is unknown or missing.

    The origin is the file `direct_url.json` of the distribution: PEP 610.
    """
    from importlib.metadata import PackageNotFoundError, distribution  # most commands need neither

    try:
        origin = json.loads(distribution(DISTRIBUTION).read_text("direct_url.json") or "{}")
    except PackageNotFoundError:
        return ""
    url = origin.get("url", "")
    if url.startswith("file:"):
        path = Path(unquote(urlsplit(url).path))
        if not path.exists():
            return ""
        if origin.get("dir_info", {}).get("editable"):
            return f"--editable {shlex.quote(f'{path}[{extra}]')}"
    elif "vcs_info" in origin:
        url = f"{origin['vcs_info']['vcs']}+{url}@{origin['vcs_info']['commit_id']}"
    return shlex.quote(f"{DISTRIBUTION}[{extra}] @ {url}") if url else ""
