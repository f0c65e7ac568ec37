"""The example of `docs/how-to/write-an-extension.md`, installed as a package: its listener, its command, its limits."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from skillrun import registry
from skillrun.cli import execution
from skillrun.models.messages import Request
from skillrun.runtime.listeners import RunListener
from tests.acceptance.conftest import Call, Make

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "write-an-extension.md"
RUN = ("greeting", "Ada", "--model", "scripted:default", "--name", "ada")


@pytest.fixture
def notifications(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file that the installed example writes."""
    code, project = re.findall(r"```(?:python|toml)[^\n]*\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    site = tmp_path / "site"
    install(site, "skillrun_notify", code, entry_points(project))
    file = tmp_path / "notifications"
    monkeypatch.setenv("SKILLRUN_NOTIFICATIONS", str(file))
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.syspath_prepend(str(site))
    registry.read_entry_points.cache_clear()
    yield file
    registry.read_entry_points.cache_clear()
    sys.modules.pop("skillrun_notify", None)


def install(site: Path, name: str, code: str, points: str) -> None:
    """Install a package that consists of one module and its entry points."""
    (site / f"{name}-0.1.dist-info").mkdir(parents=True)
    (site / f"{name}.py").write_text(code)
    (site / f"{name}-0.1.dist-info" / "entry_points.txt").write_text(points)


def entry_points(project: str) -> str:
    """The entry points that an installer writes for a `pyproject.toml`."""
    tables = re.findall(r'\[project\.entry-points\."([\w.]+)"\]\n(\w+) = "([\w:]+)"', project)
    return "".join(f"[{group}]\n{name} = {place}\n" for group, name, place in tables)


def test_its_listener_receives_the_end_of_a_run(project: Make, notifications: Path, skillrun: Call) -> None:
    project("greeting")
    done = skillrun(*RUN)
    assert done.code == 0, done.err
    assert notifications.read_text() == "ada: completed\n"


def test_its_command_runs_and_is_listed(notifications: Path, skillrun: Call) -> None:
    notifications.write_text("ada: completed\n")
    assert skillrun("notified").out.strip() == "ada: completed"
    assert "List notifications." in skillrun("--help").out


def test_a_listener_that_raises_is_reported_once_and_the_run_continues(
    project: Make, notifications: Path, skillrun: Call
) -> None:
    notifications.mkdir()
    project("greeting")
    done = skillrun(*RUN)
    assert done.code == 0, done.err
    assert (done.out + done.err).count("the notification stopped: ") == 1


def test_an_extension_that_fails_to_start_is_reported(
    project: Make, notifications: Path, skillrun: Call, tmp_path: Path
) -> None:
    install(tmp_path / "site", "skillrun_broken", "1 / 0\n", "[skillrun.listeners]\nbroken = skillrun_broken:open_it\n")
    registry.read_entry_points.cache_clear()
    project("greeting")
    done = skillrun(*RUN)
    assert done.code == 0, done.err
    assert "warning: the extension `broken` failed to load: division by zero" in done.out + done.err
    assert notifications.read_text() == "ada: completed\n"


def test_a_package_cannot_replace_a_built_in_command(notifications: Path, skillrun: Call, tmp_path: Path) -> None:
    install(tmp_path / "site", "skillrun_thief", "", "[skillrun.commands]\nversion = x:y\nshow = skillrun_thief:show\n")
    registry.read_entry_points.cache_clear()
    assert "Usage: skillrun show" in skillrun("show", "--help").out


def test_invalid_metadata_of_a_package_is_an_error_that_names_its_file(
    notifications: Path, skillrun: Call, tmp_path: Path
) -> None:
    install(tmp_path / "site", "skillrun_odd", "", "[skillrun.commands]\n[skillrun.commands]\n")
    registry.read_entry_points.cache_clear()
    done = skillrun("--help")
    assert done.code == 2
    assert "skillrun_odd-0.1.dist-info/entry_points.txt is invalid" in done.err
    assert "hint: reinstall or remove this package" in done.err


def test_a_command_that_fails_to_load_does_not_break_the_help(
    notifications: Path, skillrun: Call, tmp_path: Path
) -> None:
    install(tmp_path / "site", "skillrun_broken", "1 / 0\n", "[skillrun.commands]\nbroken = skillrun_broken:run\n")
    registry.read_entry_points.cache_clear()
    reason = "the extension `broken` failed to load: division by zero"
    shown = skillrun("--help")
    assert (shown.code, reason in " ".join(shown.out.split())) == (0, True), shown.out
    done = skillrun("broken")
    assert (done.code, f"error: {reason}" in done.err) == (2, True), done.err
    assert "hint: reinstall or remove the package of `skillrun_broken:run`" in done.err


def test_the_current_folder_registers_nothing(
    project: Make, notifications: Path, skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`python -m skillrun` has it on the search path, and a cloned project may contain anything."""
    folder = project("greeting")
    install(
        folder, "skillrun_hostile", "open('owned', 'w').close()\n", "[skillrun.listeners]\nx = skillrun_hostile:x\n"
    )
    monkeypatch.syspath_prepend(str(folder))
    registry.read_entry_points.cache_clear()
    assert skillrun(*RUN).code == 0
    assert not (folder / "owned").exists()


def test_a_listener_that_fails_on_a_request_is_reported_once(
    project: Make, notifications: Path, skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Failing(RunListener):
        what = "the observer"
        observes_requests = True

        def on_request(self, address: str, request: Request) -> None:
            raise ValueError(address)

        def close(self) -> None:
            raise ValueError("not closed")

    project("greeting")
    monkeypatch.setattr(execution, "open_listeners", lambda _context, _warn: [Failing()])
    done = skillrun(*RUN)
    assert done.code == 0, done.err
    assert (done.out + done.err).count("warning: the observer stopped: greeting/") == 1
    assert "warning: the observer stopped: not closed" in done.out + done.err


@pytest.mark.parametrize(("body", "code"), [("return ['notes.txt'], []", 0), ("raise ValueError('no notes')", 2)])
def test_validate_runs_the_checks_of_packages(
    body: str, code: int, project: Make, notifications: Path, skillrun: Call, tmp_path: Path
) -> None:
    project("greeting")
    before = skillrun("validate", "--json").json["files"]
    source = f"def check(project, library, programs):\n    {body}\n"
    install(tmp_path / "site", "skillrun_notes", source, "[skillrun.checks]\nnotes = skillrun_notes:check\n")
    registry.read_entry_points.cache_clear()
    done = skillrun("validate", "--json")
    assert done.code == code, done.err
    if code:
        assert "error: the check `notes` of an extension failed: no notes" in done.err
    else:
        assert done.json["files"] == before + 1
    sys.modules.pop("skillrun_notes")
