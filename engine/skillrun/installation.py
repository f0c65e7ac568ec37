"""The distribution that this program is installed from, and the command that adds an extra to it."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

DISTRIBUTION: Final = "skillrun-workflows"


def extra_hint(extra: str) -> str:
    """Return what to type to install an extra, such as `editor`, from where this program was installed.

    The distribution's name alone is never the answer: anybody could register it at a package index.
    """
    if target := _install_target(extra):
        return f"`{shlex.quote(sys.executable)} -m pip install {target}`"
    return f"in a checkout of skillrun, `pip install '.[{extra}]'`"


def _install_target(extra: str) -> str:
    """The arguments that pip takes for this installation with an extra; empty where its origin is unknown or gone.

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
