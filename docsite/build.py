"""Builds the site with the generator in strict mode: a broken link or anchor is an error."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from docsite.staging import CONFIG, BrokenSite, stage
from skillrun.syntax.diagnostics import make_printable


def build(folder: Path, config: Path = CONFIG) -> Path:
    """Build the site in `folder`, which is emptied first, and return its folder. Raises BrokenSite."""
    stage(folder, config)
    command = [str(Path(sys.executable).parent / "zensical"), "build", "--strict", "--clean"]
    built = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if built.returncode:
        raise BrokenSite(make_printable(built.stdout + built.stderr.partition("Traceback (most recent call last)")[0]))
    return folder / "site"
