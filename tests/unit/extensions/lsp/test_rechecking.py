"""Rechecking parts of a library finds the same problems as checking the whole library."""

from pathlib import Path

import pytest

from skillrun.checker.checker import check_library
from skillrun.extensions.lsp.workspace import CheckedLibrary, CheckOutdated, recheck
from skillrun.library.library import Library
from skillrun.library.roots import Root, package_library

EXAMPLES = Path(__file__).parents[3] / "examples"
CASES = sorted(path for path in EXAMPLES.glob("*/*") if path.is_dir())

pytestmark = pytest.mark.row("A5")


def library(folder: Path, earlier: Library | None = None, unsaved: dict[Path, str] | None = None) -> Library:
    return Library([Root(folder, "", "project")], earlier, unsaved or {})


@pytest.mark.slow
@pytest.mark.parametrize("folder", [*CASES, package_library()], ids=lambda path: path.name)
def test_rechecked_parts_have_the_problems_of_the_whole_library(folder: Path) -> None:
    whole = library(folder)
    check_library(whole)
    problems = recheck(library(folder, whole), ()).problems
    assert {*whole.problems} <= {*problems}
    extra = [problem for problem in problems if problem not in {*whole.problems}]
    # A check of the whole library reports a cycle of workflows once, from the first of them.
    assert all(problem.severity == "warning" or problem.code == "cycle" for problem in extra)
    assert whole.problems.has_errors or not extra


@pytest.mark.slow
def test_only_workflows_that_read_a_changed_file_are_rechecked() -> None:
    folder = package_library()
    first = recheck(library(folder), ())
    path = folder / "skills/refine/answers.md"
    second = recheck(library(folder, first.library, {path: path.read_text() + "\nOne more line.\n"}), (), first)
    reused = {name for name, part in second.parts.items() if part is first.parts[name]}
    assert "refine" not in reused
    assert "plan" in reused


def test_a_fixed_file_leaves_no_stale_problems(tmp_path: Path) -> None:
    """A problem that depends on the use of a file disappears with that use."""
    texts = {
        "workflows/trip.md": "---\nname: trip\ninputs:\n  place: string, where\nphases:\n  pack:\n---\n",
        "skills/trip/pack.md": '---\nkind: phase\nsteps:\n  - {say: "{{ inputs.place }}"}\n---\n',
        "skills/protocols/talk.md": "---\nkind: phase\nsteps:\n  - {say: Hello.}\n---\n",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    path, wrong = tmp_path / "skills/trip/pack.md", "---\nkind: phase\nsteps:\n  - {panel: [a], protocol: talk}\n---\n"
    checked: CheckedLibrary | None = None
    for text in (texts["skills/trip/pack.md"], wrong, texts["skills/trip/pack.md"]):
        checked = recheck(
            library(tmp_path, checked.library if checked is not None else None, {path: text}), (), checked
        )
        codes = {problem.code for problem in checked.problems if problem.severity == "error"}
        assert bool(codes) == (text == wrong)


def test_an_outdated_check_stops() -> None:
    with pytest.raises(CheckOutdated):
        recheck(library(CASES[-1]), (), is_outdated=lambda: True)


def test_a_project_file_that_is_created_ends_the_warning_that_it_is_missing(tmp_path: Path) -> None:
    texts = {
        "workflows/trip.md": "---\nname: trip\nphases:\n  pack:\n---\n",
        "skills/trip/pack.md": "---\nkind: phase\nsteps:\n  - {id: notes, read: notes.txt, from: project}\n"
        '  - {say: "{{ notes.text }}"}\n---\n',
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    first = recheck(library(tmp_path), ())
    assert [problem.code for problem in first.problems] == ["missing-file"]
    (tmp_path / "notes.txt").write_text("Bring a tent.")
    assert recheck(library(tmp_path, first.library), (), first).problems == []
