"""The example of `docs/how-to/write-an-extension.md`, installed as a package: its listener, its tool, its command."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from skillrun.cli import execution
from skillrun.models.messages import Request
from skillrun.runtime.listeners import RunListener
from tests.acceptance.conftest import Call, Make

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "write-an-extension.md"
Install = Callable[[str, str, str], Path]
RUN = ("greeting", "Ada", "--model", "scripted:default", "--name", "ada")


@pytest.fixture
def notifications(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, install: Install) -> Path:
    """The file that the installed example writes."""
    blocks = re.findall(r"```(?:python|toml) file=[^\n]*\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    code, project, _ = blocks
    file = tmp_path / "notifications"
    monkeypatch.setenv("SKILLRUN_NOTIFICATIONS", str(file))
    monkeypatch.delenv("CI", raising=False)
    install("skillrun_notify", code, entry_points(project))
    return file


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


@pytest.fixture
def notifier(project: Make, notifications: Path) -> tuple[str, ...]:
    """The options of a run whose writer calls the example's tool and then replies."""
    folder = project("greeting")
    role = folder / "roles" / "writer.md"
    role.write_text(role.read_text().replace("model: fast", "model: fast\ntools: [Notify]"))
    rules = [
        {"address": "greeting/draft/words/*/1.1", "calls": [{"name": "Notify", "arguments": {"line": "look here"}}]},
        {"address": "*", "text": "Hello."},
    ]
    (folder / "script.yaml").write_text(json.dumps(rules))
    return ("greeting", "Ada", "--script", "script.yaml")


def test_its_tool_executes_once(notifier: tuple[str, ...], notifications: Path, skillrun: Call) -> None:
    assert skillrun("validate").out.startswith("0 errors, 0 warnings")
    done = skillrun(*notifier, "--name", "ada")
    assert done.code == 0, done.err
    assert done.out.count("executes: models may call the tool Notify") == 1
    assert notifications.read_text() == "look here\nada: completed\n"
    assert skillrun("resume", "ada", "--from-start").code == 0
    assert notifications.read_text() == "look here\nada: completed\nada: completed\n"


def test_its_tool_does_not_execute_in_a_dry_run(notifier: tuple[str, ...], notifications: Path, skillrun: Call) -> None:
    done = skillrun(*notifier, "--dry-run")
    assert done.code == 0, done.err
    assert not notifications.exists()


@pytest.mark.slow
def test_a_call_of_a_tool_is_not_repeated_after_a_crash(
    notifier: tuple[str, ...],
    notifications: Path,
    process: Call,
    skillrun: Call,
    monkeypatch: pytest.MonkeyPatch,
    install: Install,
    tmp_path: Path,
) -> None:
    source = (tmp_path / "site" / "skillrun_notify.py").read_text()
    crash = 'return append_line(arguments["line"]) and os.kill(os.getpid(), 9)'
    source += (
        f"\n\ndef run_and_die(arguments, _context):\n    {crash}\n\n\nobject.__setattr__(notify, 'run', run_and_die)\n"
    )
    (tmp_path / "site" / "skillrun_notify.py").write_text(source)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    program = ("-m", "skillrun")
    assert process(*notifier, "--name", "ada", program=program).code == -signal.SIGKILL
    resumed = process("resume", "ada", program=program)
    assert resumed.code == 0, resumed.out + resumed.err
    assert notifications.read_text() == "look here\nada: completed\n"
    shown = skillrun("show", "ada", "draft", "words", "--full").out
    assert "it may have taken effect, and is not repeated" in shown


def test_a_listener_that_raises_is_reported_once_and_the_run_continues(
    project: Make, notifications: Path, skillrun: Call
) -> None:
    notifications.mkdir()
    project("greeting")
    done = skillrun(*RUN)
    assert done.code == 0, done.err
    assert (done.out + done.err).count("the notification stopped: ") == 1


def test_an_extension_that_fails_to_start_is_reported(
    project: Make, notifications: Path, skillrun: Call, install: Install
) -> None:
    install("skillrun_broken", "1 / 0\n", "[skillrun.listeners]\nbroken = skillrun_broken:open_it\n")
    project("greeting")
    done = skillrun(*RUN)
    assert done.code == 0, done.err
    assert "warning: the extension `broken` failed to load: division by zero" in done.out + done.err
    assert notifications.read_text() == "ada: completed\n"


def test_a_package_cannot_replace_a_built_in_command(notifications: Path, skillrun: Call, install: Install) -> None:
    install("skillrun_thief", "", "[skillrun.commands]\nversion = x:y\nshow = skillrun_thief:show\n")
    assert "Usage: skillrun show" in skillrun("show", "--help").out


def test_invalid_metadata_of_a_package_is_an_error_that_names_its_file(
    notifications: Path, skillrun: Call, install: Install
) -> None:
    install("skillrun_odd", "", "[skillrun.commands]\n[skillrun.commands]\n")
    done = skillrun("--help")
    assert done.code == 2
    assert "skillrun_odd-0.1.dist-info/entry_points.txt is invalid" in done.err
    assert "hint: reinstall or remove this package" in done.err


def test_a_command_that_fails_to_load_does_not_break_the_help(
    notifications: Path, skillrun: Call, install: Install
) -> None:
    install("skillrun_broken", "1 / 0\n", "[skillrun.commands]\nbroken = skillrun_broken:run\n")
    reason = "the extension `broken` failed to load: division by zero"
    shown = skillrun("--help")
    assert (shown.code, reason in " ".join(shown.out.split())) == (0, True), shown.out
    done = skillrun("broken")
    assert (done.code, f"error: {reason}" in done.err) == (2, True), done.err
    assert "hint: reinstall or remove the package of `skillrun_broken:run`" in done.err


def test_the_current_folder_registers_nothing(
    project: Make, notifications: Path, skillrun: Call, monkeypatch: pytest.MonkeyPatch, install: Install
) -> None:
    """`python -m skillrun` has it on the search path, and a cloned project may contain anything."""
    folder = project("greeting")
    points = "[skillrun.listeners]\nx = skillrun_hostile:x\n"
    site = install("skillrun_hostile", "open('owned', 'w').close()\n", points)
    for entry in site.glob("skillrun_hostile*"):
        entry.rename(folder / entry.name)
    monkeypatch.syspath_prepend(str(folder))
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
    body: str, code: int, project: Make, notifications: Path, skillrun: Call, install: Install
) -> None:
    project("greeting")
    before = skillrun("validate", "--json").json["files"]
    source = f"def check(project, library, programs):\n    {body}\n"
    install("skillrun_notes", source, "[skillrun.checks]\nnotes = skillrun_notes:check\n")
    done = skillrun("validate", "--json")
    assert done.code == code, done.err
    if code:
        assert "error: the check `notes` of an extension failed: no notes" in done.err
    else:
        assert done.json["files"] == before + 1
