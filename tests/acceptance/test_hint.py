"""`skillrun hint`: one line about a prompt, for the prompt hooks of editors and agents, which it never blocks."""

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest

from tests.acceptance.terminal import Terminal
from tests.launcher import start_skillrun

Call = Callable[..., Any]
HEAVY = ("pydantic", "anthropic", "openai", "httpx", "sqlite3", "asyncio")
LOADED = (
    "import sys; before = set(sys.modules); "
    "from skillrun.cli.main import main; main(['hint', 'Delete the users']); "
    f"print([name for name in {HEAVY} if name in set(sys.modules) - before])"  # coverage has imported some
)
PACK = """---
name: pack
description: Packs a bag.
inputs:
  trip: string, where to
  mode: {type: enum, values: [light, heavy], default: light}
config: pack
hint: |-
  {% for kind in matches(inputs.trip, config.weather) %}
  Take something for {{ kind }} ({{ inputs.mode }}).
  {% endfor %}
phases:
  packing:
---
"""
PACKING = "---\nkind: phase\ndescription: Packs.\nsteps:\n  - {say: packed}\n---\n"


@pytest.fixture
def pack(project: Call) -> Path:
    """A project whose workflow has a hint."""
    folder: Path = project()
    for name, text in {
        "workflows/pack.md": PACK,
        "skills/pack/packing.md": PACKING,
        "config/pack.yaml": "weather: {rain: [wet, 'rain\\w*'], snow: [snow]}\n",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def hint_for(monkeypatch: pytest.MonkeyPatch, skillrun: Call) -> Call:
    """Runs `hint` with this text on standard input."""

    def call(text: str | bytes, *arguments: str) -> Any:
        raw = text.encode() if isinstance(text, str) else text
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw)))
        return skillrun("hint", *arguments)

    return call


@pytest.mark.row("P10")
@pytest.mark.parametrize(
    ("prompt", "line"),
    [
        (
            "Change the passwords of users in production",
            "This touches production-access, sensitive-data: complete mode is advised.",
        ),
        ("Encrypt the notes", "This touches security-critical: advanced mode at least is advised."),
        ("A quick prototype of a clock", "This reads like a small job: rapid mode may be enough."),
        ("Add dark mode to the settings page", ""),
    ],
)
def test_the_risk_scan_of_plan_is_one_line(project: Call, skillrun: Call, prompt: str, line: str) -> None:
    project()
    done = skillrun("hint", prompt)
    assert (done.code, done.out, done.err) == (0, f"{line}\n" if line else "", "")


@pytest.mark.row("P10")
def test_the_prompt_comes_from_arguments_or_from_standard_input_as_text_or_json(project: Call, hint_for: Call) -> None:
    project()
    expected = hint_for("", "Encrypt", "the", "notes").out
    assert expected.startswith("This touches security-critical")
    hook = {"session_id": "a1", "hook_event_name": "UserPromptSubmit", "prompt": "Encrypt the notes"}
    for text in (
        "Encrypt the notes",
        "# Notes\r\n\r\n- encrypt them\r\n",
        json.dumps(hook),
        b"\xef\xbb\xbfEncrypt the notes",
    ):
        assert hint_for(text).out == expected
    assert hint_for("", "--", "- encrypt the notes").out == expected


@pytest.mark.row("P10")
def test_the_first_workflow_with_a_hint_or_the_named_one_is_used(pack: Path, skillrun: Call) -> None:
    assert skillrun("hint", "A walk in the rain").out == "Take something for rain (light).\n"
    assert skillrun("hint", "Rain and snow").out == "Take something for rain (light).\n"
    assert skillrun("hint", "Encrypt the snow").out == "Take something for snow (light).\n"
    assert skillrun("hint", "--workflow", "plan", "Encrypt the snow").out.startswith("This touches security-critical")
    assert skillrun("hint", "--workflow", "pack", "Encrypt the notes").out == ""


@pytest.mark.row("P10")
def test_a_risk_category_of_the_project_is_used(project: Call, skillrun: Call) -> None:
    folder = project()
    (folder / "config").mkdir()
    (folder / "config" / "planning.yaml").write_text("risk_categories: {security-critical: [clock]}\n")
    assert skillrun("hint", "A clock").out == "This touches security-critical: advanced mode at least is advised.\n"


@pytest.mark.row("P10")
@pytest.mark.parametrize(
    "text",
    [b"", b"  \n", b"\xff\xfe encrypt", b'{"prompt": 3}', b'{"cwd": "/"}', b"[1, 2]", b"a" * 1_000_001, b"[" * 100_000],
    ids=["empty", "blank", "not UTF-8", "not text", "no prompt", "a list", "huge", "deep"],
)
def test_an_invalid_prompt_gives_no_hint_and_no_failure(project: Call, hint_for: Call, text: bytes) -> None:
    project()
    done = hint_for(text)
    assert (done.code, done.out) == (0, "")
    assert done.err.count("\n") <= 1


@pytest.mark.row("P10")
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("workflows/pack.md", "---\nname: [\n---\n"),
        ("workflows/pack.md", PACK.replace("config.weather", "config.wether")),
        ("config/pack.yaml", "weather: [\n"),
        ("config/pack.yaml", "weather: {rain: ['(']}\n"),
        ("config/pack.yaml", "weather: {rain: ['(a+)+$']}\n"),
        ("config/pack.yaml", "weather: 3\n"),
    ],
)
def test_a_broken_library_causes_no_failure(pack: Path, skillrun: Call, name: str, text: str) -> None:
    (pack / name).write_text(text)
    done = skillrun("hint", "a" * 200 + " wet encrypt")
    assert done.code == 0
    assert "Take something" not in done.out
    assert done.err.count("\n") <= 1
    assert skillrun("hint", "--workflow", "none", "wet").code == 0


@pytest.mark.row("P10")
def test_a_missing_prompt_is_an_error_in_a_terminal(project: Call) -> None:
    project()
    terminal = Terminal("hint")
    assert terminal.end() == 2
    assert "error: the prompt is missing" in terminal.seen


@pytest.mark.row("P10")
def test_hint_does_not_wait_for_endless_input(project: Call) -> None:
    project()
    with start_skillrun("hint", stdin=PIPE, stdout=PIPE, stderr=PIPE) as hook:
        assert hook.stdout is not None
        assert hook.stdout.read() == b""
        assert hook.wait() == 0


@pytest.mark.slow
@pytest.mark.row("P10")
def test_a_hint_imports_no_model_library(project: Call, process: Call) -> None:
    project()
    done = process(program=("-c", LOADED))
    assert (done.code, done.out.splitlines()[-1]) == (0, "[]")
