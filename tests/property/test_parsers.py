"""Checking any file takes bounded time and memory and reports problems at valid positions.

Time limits are at least ten times the time on an idle machine: they detect growth, not slowness.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import SystemRandom

import pytest

from skillrun.checker.checker import check_library
from skillrun.library.library import Library
from skillrun.library.roots import search_path
from skillrun.syntax.diagnostics import Problem, render_problem
from skillrun.syntax.source import MAX_BYTES
from tests.property.bombs import BOMBS
from tests.property.mutants import LIBRARY, mutants
from tests.property.sizes import CASES

SECONDS = 20
MEGABYTES = 512
TIMES = int(os.environ.get("SKILLRUN_EXAMPLES") or 1)
MUTANTS = 10 * TIMES
# One process checks several projects sequentially, with a time limit for each and one memory limit.
CHECK = """
import json, resource, signal, sys, time
from pathlib import Path
from skillrun.checker.checker import check_library
from skillrun.library.library import Library
from skillrun.library.roots import Root, search_path
resource.setrlimit(resource.RLIMIT_AS, (MEGABYTES << 20, MEGABYTES << 20))
def late(*_): raise SystemExit("too late")
signal.signal(signal.SIGALRM, late)
for folder in sorted(Path.cwd().iterdir()):
    signal.alarm(SECONDS)
    shipped = (folder / "config/models.yaml").exists()
    library = Library(search_path(folder) if shipped else [Root(folder, "", "project")])
    check_library(library)
    found = [(one.path, one.line, one.column, one.code, one.severity) for one in library.problems]
    print(json.dumps([folder.name, found]), flush=True)
"""


# Renders templates with the same limits.
RENDER = """
import resource, signal
from skillrun.syntax.diagnostics import Problems
from skillrun.templates.expressions import RenderError, compile_string
from skillrun.syntax.source import Text
from tests.property.bombs import BOMBS, NAMES
resource.setrlimit(resource.RLIMIT_AS, (MEGABYTES << 20, MEGABYTES << 20))
def late(*_): raise SystemExit("too late")
signal.signal(signal.SIGALRM, late)
for name, written in BOMBS.items():
    signal.alarm(SECONDS)
    template = compile_string(Text.of(written), Problems())
    try:
        template.render(NAMES)
    except RenderError as error:
        assert "too large or too deeply nested" not in error.message, "the memory is at its end"
    print(name, flush=True)
"""


def run_bounded(program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the program in a separate process with limited time and memory."""
    code = program.replace("MEGABYTES", str(MEGABYTES)).replace("SECONDS", str(SECONDS))
    return subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


@pytest.fixture(scope="module")
def problems_by_case(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[list[object]]]:
    """The problems of each project of `sizes`, without projects whose check exceeds a limit."""
    top = tmp_path_factory.mktemp("sizes")
    names = dict(zip((f"{at:03}" for at in range(len(CASES))), CASES, strict=False))
    for number, name in names.items():
        write_files(top / number, CASES[name])
    found: dict[str, list[list[object]]] = {}
    remaining = sorted(names)
    while remaining:
        process = run_bounded(CHECK, top)
        results = [json.loads(line) for line in process.stdout.splitlines()]
        found |= {names[number]: problems for number, problems in results}
        for number in remaining[: len(results) + 1]:  # the process died of the one after the last result
            for path in sorted((top / number).rglob("*"), reverse=True):
                path.rmdir() if path.is_dir() else path.unlink()
            (top / number).rmdir()
        remaining = remaining[len(results) + 1 :] if process.returncode else []
    return found


@pytest.mark.slow  # a hundred files of the maximum size
@pytest.mark.row("Z6")
@pytest.mark.finding("FZ15")
@pytest.mark.parametrize("name", CASES)
def test_checking_takes_bounded_time_and_memory(name: str, problems_by_case: dict[str, list[list[object]]]) -> None:
    assert name in problems_by_case
    assert len(problems_by_case[name]) < 300


@pytest.mark.slow  # thirty templates use the maximum work of a template
@pytest.mark.row("Z6")
@pytest.mark.finding("FZ15")
def test_rendering_takes_bounded_time_and_memory() -> None:
    process = run_bounded(RENDER, LIBRARY)
    assert process.stdout.splitlines() == list(BOMBS), process.stderr
    assert process.returncode == 0


@pytest.mark.slow  # for each mutant, every workflow that may read it is checked
@pytest.mark.row("Z6")
def test_problems_of_mutants_have_valid_positions(tmp_path: Path, shipped: Library) -> None:
    seed = 8 if TIMES == 1 else SystemRandom().randrange(10**9)
    refused = 0
    earlier = shipped
    for number, (name, content) in enumerate(mutants(seed, MUTANTS)):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        library = Library(search_path(tmp_path), earlier)
        check_library(library)
        for problem in library.problems:
            check_position(problem, library, f"seed {seed}, mutant {number} of {name}")
            assert render_problem(problem).isprintable() or "\n" in render_problem(problem)
        refused += library.problems.has_errors
        path.unlink()
        earlier = library
    assert 0.3 * MUTANTS < refused < MUTANTS


def check_position(problem: Problem, library: Library, label: str) -> None:
    """Check that a problem is on an existing line, at most one column after its end."""
    sources = [source for source in library.files.values() if source.label == problem.path]
    if not sources:  # an unreadable file has no lines
        assert (problem.line, problem.column) == (1, 1) or problem.code == "encoding", f"{label}: {problem}"
        return
    lines = sources[0].text.split("\n")
    assert 1 <= problem.line <= len(lines), f"{label}: {problem}"
    assert 1 <= problem.column <= len(lines[problem.line - 1]) + 1, f"{label}: {problem}"


def encodings() -> Iterator[tuple[str, bytes, str | None]]:
    """A name, the bytes of a phase file, and the code of its first problem, if any."""
    text = '---\nkind: phase\ndescription: Packs.\nsteps:\n  - say: "x"\n---\n'
    yield "UTF-8 with a BOM", text.encode("utf-8-sig"), None
    yield "CRLF line ends", text.replace("\n", "\r\n").encode(), None
    yield "CR line ends", text.replace("\n", "\r").encode(), None
    yield "UTF-16 with a BOM", text.encode("utf-16"), "encoding"
    yield "UTF-16 without a BOM", text.encode("utf-16-le"), "encoding"
    yield "big-endian UTF-16", text.encode("utf-16-be"), "encoding"
    yield "UTF-32", text.encode("utf-32-le"), "encoding"
    yield "Latin-1", text.replace("Packs", "P\xe4ckt").encode("latin-1"), "encoding"
    yield "half a character", text.encode() + b"\xc3", "encoding"
    yield "separators in the body", (text + "a\x00b\u2028c\x85d\n").encode(), None
    yield "an empty file", b"", "kind"
    yield "zeros", b"\0" * 5_000, "encoding"
    yield "a file that is too large", b"a" * (MAX_BYTES + 1), "too-large"


@pytest.mark.slow
@pytest.mark.parametrize(("content", "code"), [pytest.param(*rest, id=name) for name, *rest in encodings()])
def test_an_encoding_is_read_or_reported(tmp_path: Path, content: bytes, code: str | None, shipped: Library) -> None:
    path = tmp_path / "skills" / "trip" / "pack.md"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    library = Library(search_path(tmp_path), shipped)
    check_library(library)
    problems = [item for item in library.problems if item.path == "skills/trip/pack.md" and item.severity == "error"]
    assert [problem.code for problem in problems[:1]] == ([code] if code else []), problems
    for problem in problems:
        check_position(problem, library, "encoding")


def test_mutants_come_from_all_shipped_folders() -> None:
    assert {path.partition("/")[0] for path, _ in mutants(1, 300)} == {"workflows", "skills", "roles", "config"}
    assert (LIBRARY / "workflows").is_dir()
