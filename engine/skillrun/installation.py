"""Finds out how this program was installed, and which command adds an extra to the installation."""

from __future__ import annotations

import json
import shlex
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

DISTRIBUTION: Final = "skillrun-workflows"
FORMER_NAME: Final = "skillrun"  # on the package index, this is the name of an unrelated package


def extra_hint(extra: str) -> str:
    """Return the command that installs an extra, such as `editor`, from the source of this installation.

    A command with only the distribution's name would not be safe: anyone could register that name on a package index.
    """
    if target := _install_target(extra):
        return f"`{shlex.quote(sys.executable)} -m pip install {target}`"
    return f"in a checkout of skillrun, `pip install '.[{extra}]'`"


def has_local_model() -> bool:
    """Return whether the extra `local`, which runs the small embedded model, is installed."""
    return find_spec("xllamacpp") is not None


def has_outlines() -> bool:
    """Return whether the extra `outline`, which finds definitions in source code, is installed."""
    return find_spec("tree_sitter") is not None


def find_conflict() -> str:
    """Return a message about an installed distribution called `skillrun`; empty if there is none.

    The distribution on the package index contains an empty `skillrun/__init__.py`. It overwrites the file of this
    program; if this program is installed as editable, it hides the whole program. Uninstalling one of the two packages
    deletes files of the other.
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
    """Return the pip arguments that install this program with an extra; empty if its source is unknown or missing.

    The source is recorded in the distribution's file `direct_url.json` (PEP 610).
    """
    from importlib.metadata import PackageNotFoundError, distribution  # slow to import

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
