"""A library that is checked again part by part has the problems that it has when it is checked as a whole."""

from pathlib import Path

import pytest

from skillrun.checker.checker import check_library
from skillrun.checker.rechecking import CheckedLibrary, CheckOutdated, recheck
from skillrun.library.library import Library
from skillrun.library.roots import Root, package_library

EXAMPLES = Path(__file__).parents[2] / "examples"
CASES = sorted(path for path in EXAMPLES.glob("*/*") if path.is_dir())

pytestmark = pytest.mark.row("A5")


def library(folder: Path, earlier: Library | None = None, unsaved: dict[Path, str] | None = None) -> Library:
    return Library([Root(folder, "", "project")], earlier, unsaved or {})


@pytest.mark.slow
@pytest.mark.parametrize("folder", [*CASES, package_library()], ids=lambda path: path.name)
def test_parts_have_the_problems_of_the_whole(folder: Path) -> None:
    whole = library(folder)
    check_library(whole)
    told = recheck(library(folder, whole), ()).problems
    assert {*whole.problems} <= {*told}
    more = [problem for problem in told if problem not in {*whole.problems}]
    # Two workflows that run one another are told of once where they are checked together, from the first one.
    assert all(problem.severity == "warning" or problem.code == "cycle" for problem in more)
    assert whole.problems.has_errors or not more


@pytest.mark.slow
def test_only_what_reads_a_changed_file_is_checked_again() -> None:
    folder = package_library()
    first = recheck(library(folder), ())
    path = folder / "skills/refine/answers.md"
    second = recheck(library(folder, first.library, {path: path.read_text() + "\nOne more line.\n"}), (), first)
    same = {name for name, part in second.parts.items() if part is first.parts[name]}
    assert "refine" not in same
    assert "plan" in same


def test_a_mended_file_leaves_no_problem_behind(tmp_path: Path) -> None:
    """What is wrong with a file only as another one uses it is gone as soon as that one does not."""
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


def test_a_check_that_nobody_waits_for_ends() -> None:
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
