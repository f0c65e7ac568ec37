"""The commands that `make` runs to set up an environment."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = Path(".venv/lib/python3.11/site-packages")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A folder with only the Makefile and the files that its setup depends on."""
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def commands(clone: Path, target: str) -> list[str]:
    """Return the commands that a target would run."""
    dry_run = ["make", "--dry-run", "--no-print-directory", f"PYTHON={sys.executable}", target]
    return subprocess.run(dry_run, cwd=clone, check=True, capture_output=True, text=True).stdout.splitlines()


@pytest.mark.parametrize(
    "target", [".venv/.installed", ".venv/.installed-local", ".venv/.installed-dev", ".chaos-venv/.installed"]
)
def test_setup_shows_errors_of_pip_but_no_warnings(clone: Path, target: str) -> None:
    (install,) = [line for line in commands(clone, target) if "pip install" in line]
    assert install.split().count("--quiet") == 2


def test_setup_uninstalls_the_distribution_with_the_program_name(clone: Path) -> None:
    (clone / PACKAGES / "skillrun_workflows-0.1.0.dist-info").mkdir(parents=True)
    assert not any("uninstall" in line for line in commands(clone, ".venv/.installed"))
    (clone / PACKAGES / "skillrun-0.0.6.dist-info").mkdir()
    venv, uninstall, install = commands(clone, ".venv/.installed")[-4:-1]
    assert venv.endswith(" -m venv .venv")
    assert uninstall.endswith(" -m pip uninstall --quiet --yes skillrun")
    assert " -m pip install " in install
