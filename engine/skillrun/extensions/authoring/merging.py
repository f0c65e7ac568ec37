"""Three-way merge with git, in a temporary folder that no repository or git config affects."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from skillrun.syntax.diagnostics import SkillrunError
from skillrun.version import __version__

MAX_CONFLICTS: Final = 127  # git's exit code is the number of conflicts up to this; higher codes are errors
SIDE_LABELS: Final = ("yours", "ejected", f"shipped with skillrun {__version__}")  # labels in conflict markers


def merge_texts(current: str, original: str, shipped: str) -> tuple[str, bool]:
    """Return the text with the changes of both sides, and whether it has conflict markers.

    Line endings are those of `current`. Raises SkillrunError if git is missing or fails.
    """
    git = shutil.which("git")
    if git is None:
        hint = "install git, or apply the changes from `skillrun outdated --diff` manually"
        raise SkillrunError("merging requires git, which is not installed", hint)
    if "\r\n" in current:
        original, shipped = original.replace("\n", "\r\n"), shipped.replace("\n", "\r\n")
    with tempfile.TemporaryDirectory(prefix="skillrun-") as folder:
        for name, text in zip(SIDE_LABELS, (current, original, shipped), strict=True):
            (Path(folder) / name).write_bytes(text.encode("utf-8", "surrogateescape"))
        labels = [word for name in SIDE_LABELS for word in ("-L", name)]
        done = subprocess.run(  # noqa: S603 (git, on three temporary files)
            [git, "merge-file", "-p", "-q", *labels, *SIDE_LABELS],
            cwd=folder,
            env=_environment(folder),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    if not 0 <= done.returncode <= MAX_CONFLICTS:
        raise SkillrunError(f"git cannot merge: {done.stderr.decode('utf-8', 'replace').strip()}")
    return done.stdout.decode("utf-8", "surrogateescape"), done.returncode > 0


def _environment(folder: str) -> dict[str, str]:
    settings = {"HOME": folder, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "LC_ALL": "C"}
    return {"PATH": os.environ.get("PATH", os.defpath), "GIT_CEILING_DIRECTORIES": os.path.dirname(folder), **settings}  # noqa: PTH120
