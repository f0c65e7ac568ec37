"""The benchmark's virtual environment with the peers, created on the first run and when their versions change."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / ".bench-venv"
REQUIREMENTS = Path(__file__).with_name("requirements.txt")


def program(name: str) -> str:
    """The path of a program in the benchmark's environment."""
    return str(FOLDER / "bin" / name)


def prepare() -> None:
    """Install the peers, unless the stamp file lists these versions as installed."""
    stamp = FOLDER / "installed.txt"
    wanted = REQUIREMENTS.read_text(encoding="utf-8")
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted:
        return
    print(f"Installing the peers into {FOLDER.name} …", flush=True)
    subprocess.run([sys.executable, "-m", "venv", str(FOLDER)], check=True)
    install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", str(REQUIREMENTS)]
    subprocess.run([program("python"), *install], check=True)
    stamp.write_text(wanted, encoding="utf-8")
