"""Whatever stands in a file, checking it ends soon, in bounded memory, with problems at places that there are.

The clocks are ten times what a quiet machine takes, or more: they tell what grows from what is only slow.
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
# One process checks some projects, one after the other, and gives each a clock. All memory together is bounded.
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


# The same for templates.
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


def bounded(program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """The program in a process of its own, with its clock and its memory."""
    code = program.replace("MEGABYTES", str(MEGABYTES)).replace("SECONDS", str(SECONDS))
    return subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)


def written(folder: Path, files: Mapping[str, str]) -> Path:
    for path, text in files.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[list[object]]]:
    """What the check says of each of the projects of `sizes`; of one that it does not get through, nothing."""
    top = tmp_path_factory.mktemp("sizes")
    names = dict(zip((f"{at:03}" for at in range(len(CASES))), CASES, strict=False))
    for number, name in names.items():
        written(top / number, CASES[name])
    found: dict[str, list[list[object]]] = {}
    left = sorted(names)
    while left:
        done = bounded(CHECK, top)
        told = [json.loads(line) for line in done.stdout.splitlines()]
        found |= {names[number]: problems for number, problems in told}
        for number in left[: len(told) + 1]:  # the one behind the last that was told is the one that it died of
            for path in sorted((top / number).rglob("*"), reverse=True):
                path.rmdir() if path.is_dir() else path.unlink()
            (top / number).rmdir()
        left = left[len(told) + 1 :] if done.returncode else []
    return found


@pytest.mark.slow  # a hundred files as large as a file may be
@pytest.mark.row("Z6")
@pytest.mark.finding("FZ15")
@pytest.mark.parametrize("name", CASES)
def test_checking_a_file_ends_soon_and_in_bounded_memory(name: str, checked: dict[str, list[list[object]]]) -> None:
    assert name in checked
    assert len(checked[name]) < 300


@pytest.mark.slow  # thirty templates use up all the work that a template may do
@pytest.mark.row("Z6")
@pytest.mark.finding("FZ15")
def test_no_template_takes_long_or_fills_the_memory() -> None:
    done = bounded(RENDER, LIBRARY)
    assert done.stdout.splitlines() == list(BOMBS), done.stderr
    assert done.returncode == 0


@pytest.mark.slow  # each mutant has every workflow checked that may read it
@pytest.mark.row("Z6")
def test_every_mutant_of_a_shipped_file_is_checked_or_refused_at_a_place_in_it(
    tmp_path: Path, shipped: Library
) -> None:
    seed = 8 if TIMES == 1 else SystemRandom().randrange(10**9)
    refused = 0
    earlier = shipped
    for number, (path, content) in enumerate(mutants(seed, MUTANTS)):
        place = tmp_path / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
        library = Library(search_path(tmp_path), earlier)
        check_library(library)
        for problem in library.problems:
            check_place(problem, library, f"seed {seed}, mutant {number} of {path}")
            assert render_problem(problem).isprintable() or "\n" in render_problem(problem)
        refused += library.problems.has_errors
        place.unlink()
        earlier = library
    assert 0.3 * MUTANTS < refused < MUTANTS


def check_place(problem: Problem, library: Library, label: str) -> None:
    """A problem stands in its file: on a line that there is, at most one behind its last character."""
    sources = [source for source in library.files.values() if source.label == problem.path]
    if not sources:  # what cannot be read has no lines
        assert (problem.line, problem.column) == (1, 1) or problem.code == "encoding", f"{label}: {problem}"
        return
    lines = sources[0].text.split("\n")
    assert 1 <= problem.line <= len(lines), f"{label}: {problem}"
    assert 1 <= problem.column <= len(lines[problem.line - 1]) + 1, f"{label}: {problem}"


def encodings() -> Iterator[tuple[str, bytes, str | None]]:
    """A name, a phase file, and the code of its first problem, if it has one."""
    text = '---\nkind: phase\ndescription: Packs.\nsteps:\n  - say: "x"\n---\n'
    yield "UTF-8 with a mark", text.encode("utf-8-sig"), None
    yield "line ends of Windows", text.replace("\n", "\r\n").encode(), None
    yield "line ends of old machines", text.replace("\n", "\r").encode(), None
    yield "UTF-16 with a mark", text.encode("utf-16"), "encoding"
    yield "UTF-16 without one", text.encode("utf-16-le"), "encoding"
    yield "UTF-16 the other way round", text.encode("utf-16-be"), "encoding"
    yield "UTF-32", text.encode("utf-32-le"), "encoding"
    yield "Latin-1", text.replace("Packs", "P\xe4ckt").encode("latin-1"), "encoding"
    yield "half a character", text.encode() + b"\xc3", "encoding"
    yield "separators in the body", (text + "a\x00b\u2028c\x85d\n").encode(), None
    yield "nothing", b"", "kind"
    yield "zeros", b"\0" * 5_000, "encoding"
    yield "too much", b"a" * (MAX_BYTES + 1), "too-large"


@pytest.mark.slow
@pytest.mark.parametrize(("content", "code"), [pytest.param(*rest, id=name) for name, *rest in encodings()])
def test_an_encoding_is_read_or_named(tmp_path: Path, content: bytes, code: str | None, shipped: Library) -> None:
    place = tmp_path / "skills" / "trip" / "pack.md"
    place.parent.mkdir(parents=True)
    place.write_bytes(content)
    library = Library(search_path(tmp_path), shipped)
    check_library(library)
    found = [one for one in library.problems if one.path == "skills/trip/pack.md" and one.severity == "error"]
    assert [one.code for one in found[:1]] == ([code] if code else []), found
    for problem in found:
        check_place(problem, library, "encoding")


def test_the_mutants_are_made_of_all_that_ships() -> None:
    assert {path.partition("/")[0] for path, _ in mutants(1, 300)} == {"workflows", "skills", "roles", "config"}
    assert (LIBRARY / "workflows").is_dir()
