"""Has the generator build the site, strictly: a link or anchor that leads nowhere is an error."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from docsite.staging import CONFIG, BrokenSite, stage
from skillrun.syntax.diagnostics import make_printable


def build(folder: Path, config: Path = CONFIG) -> Path:
    """The folder of the built site, made in `folder`, which is emptied before. Raises BrokenSite."""
    stage(folder, config)
    command = [str(Path(sys.executable).parent / "zensical"), "build", "--strict", "--clean"]
    built = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if built.returncode:
        raise BrokenSite(make_printable(built.stdout + built.stderr.partition("Traceback (most recent call last)")[0]))
    return folder / "site"
