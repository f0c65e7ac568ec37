"""`find`: which paths are in the repository. It reveals no more about withheld files than the tools do."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from skillrun.store.local.journal import SqliteJournal

Call = Callable[..., Any]
pytestmark = pytest.mark.row("Q3")

WORKFLOW = """---
name: look
description: Looks for files.
inputs:
  request: string, what to look for
  repo?: path, the code base
REPOSITORY
phases:
  look:
---
Looks.
"""
PHASE = """---
kind: phase
steps:
  - id: files
    find: FIND
    otherwise: {say: Not searched., level: warn}
  - {id: out, write: out.md}
---
## out
{% if files %}{{ files | tojson }}{% else %}not searched{% endif %}
"""
NAMES = ("src/app.py", "docs/guide.rst", "app/[id]/page.ts", "tls/server.pem", ".gitignore", "build/out.txt", "é.md")
PRESENT = [
    "src/app.py",
    "./src/app.py",
    "src",
    "src/",
    "docs/*.rst",
    "**/page.*",
    "app/[id]/page.ts",
    "src/../docs",
    "é.md",
]
MISSING = [
    *("src/nothing.py", "src/app.py/", "src/app.py/x", "nothing/", "docs/*.md", "[", "x" * 5_000, "a\0b", "\ud800/x"),
    *("../out/secret.txt", "/etc/passwd", "out/secret.txt", "..", "src/../../project/src/app.py"),
]
WITHHELD = [
    *(".env", "tls/server.pem", "tls/other.pem", "tls/other.pem/x", "tls/server.pem/x", "src/../.env", ".git/config"),
    *("**/*.pem", "build/", "build/out.txt", "build", "node_modules/a.js", "env", "deep/.ENV"),
]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    def make(find: Any, repository: str = "repository: .") -> Path:
        folder = tmp_path / "project"
        files = {
            **dict.fromkeys(NAMES, "x"),
            ".gitignore": "build/\n",
            ".git/HEAD": "ref: refs/heads/main\n",
            "workflows/look.md": WORKFLOW.replace("REPOSITORY\n", f"{repository}\n" if repository else ""),
            "skills/look/look.md": PHASE.replace("FIND", json.dumps(find)),
            "../out/secret.txt": "x",
        }
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        for name, target in {"out": "../out", "env": "tls/server.pem"}.items():
            (folder / name).symlink_to(target)
        monkeypatch.chdir(folder)
        return folder

    return make


def read_result(folder: Path) -> dict[str, list[Any]]:
    result: dict[str, list[Any]] = json.loads((folder / "runs" / "it" / "out.md").read_text("utf-8"))
    return result


def test_paths_and_records_are_returned_unchanged_in_three_lists(project: Call, skillrun: Call) -> None:
    missing = [one.encode("utf-8", "replace").decode() for one in MISSING if "\0" not in one]
    items = [*PRESENT, *missing, *WITHHELD, *PRESENT[:1]]
    folder = project("{{ config.paths }}", "config: look\nrepository: .")
    records = [{"path": one, "place": {"line": at}} for at, one in enumerate(items)]
    (folder / "config").mkdir()
    (folder / "config" / "look.yaml").write_text(json.dumps({"paths": records}))
    assert skillrun("look", "hello", "--name", "it").code == 0
    result = read_result(folder)
    assert {name: [one["path"] for one in entries] for name, entries in result.items()} == {
        "found": [*PRESENT, *PRESENT[:1]], "missing": missing, "withheld": WITHHELD
    }  # fmt: skip
    assert [one["place"]["line"] for one in result["found"]] == [*range(len(PRESENT)), len(items) - 1]


@pytest.mark.finding("FB10")
@pytest.mark.parametrize("entry", ["", "\0\0", "\x1b[0m", "x" * 5_000, "\u00e9" * 3_000, " ", "\n", "\ufffd"])
def test_a_path_that_a_model_garbled_is_missing_alone(project: Call, skillrun: Call, entry: str) -> None:
    folder = project("{{ named.data.files }}")
    skill = folder / "skills" / "look" / "look.md"
    model = "  - {id: named, agent: reader, output: {files(array): {path: string}}}\n"
    text = (
        skill.read_text().replace("steps:\n", f"steps:\n{model}").replace("## out", "## named\nName files.\n\n## out")
    )
    skill.write_text(text.replace("    otherwise: {say: Not searched., level: warn}\n", ""))
    (folder / "roles").mkdir()
    (folder / "roles" / "reader.md").write_text("---\nname: reader\n---\nYou read.\n")
    paths = ["src/app.py", entry, "src/nothing.py"]
    reply = {"address": "*", "data": {"files": [{"path": path} for path in paths]}}
    (folder / "script.yaml").write_text(json.dumps([reply]))
    done = skillrun("look", "hello", "--name", "it", "--script", "script.yaml")
    assert done.code == 0, done.out + done.err
    result = read_result(folder)
    assert [one["path"] for one in result["found"]] == ["src/app.py"]
    assert [one["path"] for one in result["missing"]][1:] == ["src/nothing.py"]
    assert result["withheld"] == []


def test_withheld_paths_are_withheld_whether_they_exist_or_not(project: Call, skillrun: Call) -> None:
    names = ["tls/server.pem", "tls/server.pem/x", "src/../tls/server.pem", "build", "build/", "build/out.txt"]
    folder = project(names)
    assert skillrun("look", "hello", "--name", "it").code == 0
    first = read_result(folder)
    (folder / "tls" / "server.pem").unlink()
    (folder / "build" / "out.txt").unlink()
    (folder / "build").rmdir()
    (folder / "runs" / "it").rename(folder / "runs" / "before")
    assert skillrun("look", "hello", "--name", "it").code == 0
    assert read_result(folder) == first == {"found": [], "missing": [], "withheld": names}


def test_a_resumed_run_finds_the_same_paths(project: Call, skillrun: Call) -> None:
    folder = project(["src/app.py", "src/later.py"])
    skill = folder / "skills" / "look" / "look.md"
    skill.write_text(
        skill.read_text().replace(
            "  - {id: out", "  - {id: hold, ask: Continue?, pause: exit, form: go.md}\n  - {id: out"
        )
    )
    assert skillrun("look", "hello", "--name", "it").code == 75
    (folder / "src" / "app.py").rename(folder / "src" / "later.py")
    with closing(SqliteJournal.open(folder / "runs" / "it")) as journal:
        assert [entry.body for entry in journal.entries("tool")] == [
            {"paths": {"src/app.py": "found", "src/later.py": "missing"}}
        ]
    form = folder / "runs" / "it" / "go.md"
    form.write_text(form.read_text().replace("Answer:", "Answer: yes"))
    assert skillrun("resume", "it").code == 0
    assert read_result(folder) == {"found": ["src/app.py"], "missing": ["src/later.py"], "withheld": []}


@pytest.mark.parametrize(
    ("find", "repository", "message"),
    [
        (["src/app.py"], "", "the workflow names no repository to search"),
        (["src/app.py"], 'repository: "{{ inputs.repo }}"', "the workflow names no repository to search"),
        ("{{ [{'a': 1}] | groupby('a') }}", "repository: .", "`find` takes paths, or records with a `path`"),
        ("{{ range(1001) | map('string') }}", "repository: .", "at most 1,000 paths; this step has 1,001"),
    ],
)
def test_an_invalid_search_uses_the_fallback(
    project: Call, skillrun: Call, find: Any, repository: str, message: str
) -> None:
    folder = project(find, repository)
    done = skillrun("look", "hello", "--name", "it")
    assert done.code == 0, done.out
    assert "Not searched." in done.out
    assert message in done.out
    assert (folder / "runs" / "it" / "out.md").read_text() == "not searched\n"


SOURCE = "".join(f"line {number}\n" for number in range(1, 41))


def find_and_show(project: Call, skillrun: Call, find: Any, limit: int = 100) -> dict[str, Any]:
    """Return the result of `find` with `show`."""
    folder = project(find)
    (folder / "src" / "app.py").write_text(SOURCE)
    (folder / "src" / "other.py").write_bytes(b"one\r\ntwo\n")
    (folder / "src" / "picture.png").write_bytes(b"\x89\0")
    (folder / "src" / "dead").symlink_to("nowhere")
    skill = folder / "skills" / "look" / "look.md"
    skill.write_text(skill.read_text().replace("    otherwise:", f"    show: {limit}\n    otherwise:"))
    done = skillrun("look", "hello", "--name", "it")
    assert done.code == 0, done.out
    return read_result(folder)


def numbered_lines(*numbers: int) -> str:
    return "\n".join(f"{number:>6}\tline {number}" for number in numbers)


@pytest.mark.row("Q1")
def test_named_lines_are_shown_once_and_in_order(project: Call, skillrun: Call) -> None:
    text = "`src/app.py:20-22` `src/app.py:2` src/app.py:4 src/other.py src/app.py:21-23 `src/app.py:39-99` src/no.py:1"
    result = find_and_show(project, skillrun, f"{{{{ paths_in({text!r}) }}}}")
    first = "\n   […]\n".join([numbered_lines(2, 3, 4), numbered_lines(*range(20, 24)), numbered_lines(39, 40)])
    assert result["texts"] == [
        {"path": "src/app.py", "text": first},
        {"path": "src/other.py", "text": "     1\tone\n     2\ttwo"},
    ]
    assert result["left_out"] == []
    assert [one["path"] for one in result["missing"]] == ["src/no.py"]


@pytest.mark.row("Q1")
def test_files_that_do_not_fit_are_named_and_withheld_files_are_not_shown(project: Call, skillrun: Call) -> None:
    names = [
        "src/picture.png",
        ".env",
        "tls/server.pem",
        "env",
        "src/dead",
        "src/",
        "src/*.py",
        "src/app.py",
        "src/other.py",
    ]
    result = find_and_show(project, skillrun, names, limit=7)
    assert result["texts"] == [{"path": "src/app.py", "text": numbered_lines(*range(1, 8))}]
    assert result["left_out"] == ["src/picture.png", "src/app.py:8-40", "src/other.py"]
    assert set(result["withheld"]) >= {".env", "tls/server.pem", "env"}


@pytest.mark.row("Q1")
def test_a_resumed_phase_shows_the_same_text(project: Call, skillrun: Call) -> None:
    folder = project(["./src/../src/app.py"])
    (folder / "src" / "app.py").write_text(SOURCE)
    skill = folder / "skills" / "look" / "look.md"
    hold = "  - {id: hold, ask: Continue?, pause: exit, form: go.md}\n  - {id: out"
    text = skill.read_text().replace("    otherwise:", "    show: 2\n    otherwise:")
    skill.write_text(text.replace("  - {id: out", hold))
    assert skillrun("look", "hello", "--name", "it").code == 75
    (folder / "src" / "app.py").write_text("other\n")
    form = folder / "runs" / "it" / "go.md"
    form.write_text(form.read_text().replace("Answer:", "Answer: yes"))
    assert skillrun("resume", "it").code == 0
    assert read_result(folder)["texts"] == [{"path": "src/app.py", "text": numbered_lines(1, 2)}]


@pytest.mark.finding("FT5")
def test_places_beyond_the_end_of_a_file_are_returned_with_its_length(project: Call, skillrun: Call) -> None:
    folder = project(
        "{{ paths_in('`src/app.py:2`, src/deep.py lines 2-3, `docs/guide.rst`, `gone.py:9`, `page.ts`') }}"
    )
    (folder / "src" / "deep.py").write_text("a\nb\nc")
    (folder / "src" / "app.py").write_text("a\n")
    assert skillrun("look", "hello", "--name", "it").code == 0
    result = read_result(folder)
    assert [(one["path"], one["length"]) for one in result["past_end"]] == [("src/app.py", 1)]
    assert [one["path"] for one in result["missing"]] == ["gone.py"]
    assert [one["path"] for one in result["found"]] == ["src/app.py", "src/deep.py", "docs/guide.rst", "page.ts"]
