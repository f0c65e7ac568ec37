"""A three-way merge as git does it, by git itself, in a folder where no repository and no config has a say."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from skillrun.syntax.diagnostics import SkillrunError
from skillrun.version import __version__

MAX_CONFLICTS: Final = 127  # that git counts; what is above is an error
SIDE_LABELS: Final = ("yours", "ejected", f"shipped with skillrun {__version__}")  # of the sides, in the marks


def merge_texts(current: str, original: str, shipped: str) -> tuple[str, bool]:
    """The text with what both sides have changed, and whether they have changed the same places: marks are there then.

    Line ends are those of `mine`. Raises SkillrunError where git is missing or refuses.
    """
    git = shutil.which("git")
    if git is None:
        hint = "install git, or take over what `skillrun outdated --diff` shows by hand"
        raise SkillrunError("git is not there, and it is what merges", hint)
    if "\r\n" in current:
        original, shipped = original.replace("\n", "\r\n"), shipped.replace("\n", "\r\n")
    with tempfile.TemporaryDirectory(prefix="skillrun-") as folder:
        for name, text in zip(SIDE_LABELS, (current, original, shipped), strict=True):
            (Path(folder) / name).write_bytes(text.encode("utf-8", "surrogateescape"))
        labels = [word for name in SIDE_LABELS for word in ("-L", name)]
        done = subprocess.run(  # noqa: S603 (git, on three files of ours)
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
