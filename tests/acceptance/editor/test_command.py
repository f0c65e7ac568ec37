"""`skillrun lsp` as a command: its help, and its errors in a terminal and without its library."""

import sys

import pytest

from skillrun.installation import extra_hint
from tests.acceptance.conftest import Call

pytestmark = pytest.mark.row("A5")


def test_help_says_how_editors_start_it(skillrun: Call) -> None:
    done = skillrun("lsp", "--help")
    assert done.code == 0
    assert "An editor starts it for files in workflows/" in " ".join(done.out.split())


def test_in_a_terminal_it_explains_that_an_editor_starts_it(skillrun: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    done = skillrun("lsp")
    assert done.code == 2
    assert "`skillrun lsp` must be started by an editor" in done.err
    assert done.out == ""


def test_without_pygls_it_explains_how_to_install_it(skillrun: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith(("skillrun.extensions.lsp", "pygls", "lsprotocol"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "lsprotocol", None)
    done = skillrun("lsp")
    assert done.code == 1
    assert done.err == f"error: the language server needs pygls\nhint: {extra_hint('editor')}\n"


def test_no_other_command_loads_it(process: Call) -> None:
    code = "import sys; from skillrun.cli.main import main; main(['list']); print('pygls' in sys.modules)"
    assert process(program=("-c", code)).out.split()[-1] == "False"
