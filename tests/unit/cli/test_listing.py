"""Listing the files of the search path with their descriptions."""

import os
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillrun.cli.listing import UNREADABLE, _read_description, _read_yaml_description, has_workflow, list_files
from tests.launcher import start_skillrun


@pytest.mark.parametrize(
    ("text", "description"),
    [
        ("---\nname: a\ndescription: one line\n---\n", "one line"),
        ("---\r\nname: a\r\ndescription: >-\r\n  two\r\n  lines\r\n---\r\nbody", "two lines"),
        ("\ufeff---\ndescription: yes\n---", "yes"),
        ("---\ndescription: 22:22\n---\n", "22:22"),
        ("---\ndescription: no end\n", UNREADABLE),
        ("---\ndescription: 3\n---\n", "3"),
        ("---\ndescription:\n---\n", ""),
        ("no frontmatter", ""),
        ("---\nname: a\n---\n", ""),
        ("---\ndescription: [a, b]\n---\n", UNREADABLE),
        ("---\ndescription: 'open\n---\n", UNREADABLE),
        ("---\n- a list\n---\n", UNREADABLE),
    ],
)
def test_the_description_is_read_even_if_the_rest_is_invalid(tmp_path: Path, text: str, description: str) -> None:
    (tmp_path / "workflows").mkdir()
    (tmp_path / "workflows" / "a.md").write_bytes(text.encode())
    assert [(item.description, item.origin) for item in list_files(tmp_path, "workflows") if item.name == "a"] == [
        (description, "project")
    ]


def test_a_project_file_overrides_the_built_in_one(tmp_path: Path) -> None:
    (tmp_path / "workflows").mkdir()
    (tmp_path / "workflows" / "plan.md").write_text("---\ndescription: mine\n---\n")
    assert [item.description for item in list_files(tmp_path, "workflows") if item.name == "plan"] == ["mine"]
    assert has_workflow(tmp_path, "plan")
    assert not has_workflow(tmp_path, "nothing")


def test_the_shipped_files_are_listed_without_heavy_imports() -> None:
    code = (
        "import sys; from skillrun.cli.main import main; main(['list']); "
        "print([name for name in ('jinja2', 'yaml', 'asyncio', 'jsonschema') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.row("Z6")
@pytest.mark.finding("FZ15")
@pytest.mark.parametrize("command", [["list"], ["--help"], ["plann"]])
@pytest.mark.parametrize("kind", ["brackets", "pipe", "device", "folder", "loop", "large"])
def test_no_project_file_crashes_or_hangs_the_listing(tmp_path: Path, kind: str, command: list[str]) -> None:
    folder = tmp_path / "workflows"
    folder.mkdir()
    path = folder / "z.md"
    match kind:
        case "brackets":
            path.write_text("---\nname: z\ndescription: " + "[" * 180_000 + "\n---\n")
        case "pipe":
            os.mkfifo(path)
        case "device":
            path.symlink_to("/dev/zero")
        case "folder":
            path.mkdir()
        case "loop":
            path.symlink_to(path)
        case "large":
            path.write_text("---\nname: z\ndescription: 'x'\n---\n" + "a" * 1_000_000)
    with start_skillrun(*command, cwd=tmp_path, stdout=PIPE, stderr=PIPE, text=True) as process:
        out, err = process.communicate(timeout=30)
    assert process.returncode == (2 if command == ["plann"] else 0), err
    assert (UNREADABLE in " ".join(out.split())) == (command != ["plann"])


@given(st.text("ab: #'\"\n-,.()[]{}1é\t\\", max_size=30))
def test_the_quick_reader_reads_a_description_like_the_yaml_parser(text: str) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "a.md"
        path.write_bytes(f"---\nname: a\ndescription: {text}\nphases:\n---\n".encode())
        description = _read_yaml_description(path, None)
        assert description in (UNREADABLE, _read_description(path, None)) or not text.strip()
