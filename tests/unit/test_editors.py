"""The editor settings match the program: the command that starts the server, and the files it is started for."""

import json
import re
import tomllib
from pathlib import Path

import pytest

from skillrun.cli.registry import COMMANDS
from skillrun.extensions.testing.cases import CASES_FOLDER
from skillrun.library.roots import FOLDERS

TOP = Path(__file__).parents[2]
VSCODE = TOP / "editors" / "vscode"
PAGE = (TOP / "docs" / "editors.md").read_text(encoding="utf-8")

pytestmark = pytest.mark.row("A5")


def test_the_vs_code_extension_starts_the_server_for_every_kind_of_file() -> None:
    package = json.loads((VSCODE / "package.json").read_text(encoding="utf-8"))
    program, command = package["contributes"]["configuration"]["properties"]["skillrun.command"]["default"]
    assert (program, command in COMMANDS) == ("skillrun", True)
    code = (VSCODE / "extension.js").read_text(encoding="utf-8")
    files = re.search(r'FILES = "\*\*/\{(.*?)\}', code)
    assert files is not None
    assert set(files[1].split(",")) == {*FOLDERS, CASES_FOLDER}


def test_the_lockfile_of_the_extension_matches_its_package() -> None:
    package = json.loads((VSCODE / "package.json").read_text(encoding="utf-8"))
    locked = json.loads((VSCODE / "package-lock.json").read_text(encoding="utf-8"))["packages"][""]
    assert locked["devDependencies"] == package["devDependencies"]
    assert locked["version"] == package["version"]


def test_the_settings_on_the_page_are_valid_and_start_the_server() -> None:
    [helix] = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    server = tomllib.loads(helix)["language-server"]["skillrun"]
    assert (server["command"], server["args"][0] in COMMANDS) == ("skillrun", True)
    for settings in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL):
        assert json.loads(settings)
    assert "cmd = { 'skillrun', 'lsp' }" in PAGE


def test_the_zed_extension_is_valid() -> None:
    zed = tomllib.loads((TOP / "editors/zed/extension.toml").read_text(encoding="utf-8"))
    assert zed["language_servers"]["skillrun"]["languages"] == ["Markdown", "YAML"]
    assert tomllib.loads((TOP / "editors/zed/Cargo.toml").read_text(encoding="utf-8"))["lib"]["crate-type"] == [
        "cdylib"
    ]
