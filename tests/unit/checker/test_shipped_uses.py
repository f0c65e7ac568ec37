"""`workflows/uses.json` names the files that each shipped workflow uses."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from skillrun.checker.checker import USES_FILE, check_library, check_workflow, shipped_uses
from skillrun.library.library import Library
from skillrun.library.roots import package_library, search_path

UPDATE = bool(os.environ.get("SKILLRUN_UPDATE_DOCS"))  # read at import: tests run without this variable
MINE = "---\nname: mine\nphases: {}\n---\n"
SETTINGS = {f"config/{name}.yaml" for name in ("models", "sizes", "skillrun", "subagents")}


def test_the_list_of_used_files_is_true(tmp_path: Path) -> None:
    library = Library(search_path(tmp_path))
    uses = {}
    for name in library.names("workflows"):
        fork = library.fork()
        check_workflow(fork, name)
        files = {path for path in fork.looked_up_files() if not path.startswith("skills/system/")}
        uses[f"workflows/{name}.md"] = sorted(files - SETTINGS)
    if UPDATE:
        (package_library() / USES_FILE).write_text(json.dumps(uses, indent=1) + "\n", "utf-8")
        shipped_uses.cache_clear()
    assert {path: sorted(used) for path, used in shipped_uses().items()} == uses


@pytest.mark.finding("FX14")
@pytest.mark.parametrize(
    ("file", "checked"),
    [
        ("workflows/mine.md", {"mine"}),
        ("config/models.yaml", set()),
        ("roles/fresh.md", set()),
        ("config/planning.yaml", {"plan"}),
        ("skills/plan/architecture.md", {"plan"}),
        ("workflows/refine.md", {"refine"}),
        ("skills/protocols/consensus.md", {"plan"}),
    ],
)
def test_a_shipped_workflow_is_checked_if_the_project_replaces_a_file_that_it_uses(
    tmp_path: Path, file: str, checked: set[str]
) -> None:
    place = tmp_path / file
    place.parent.mkdir(parents=True)
    shipped = package_library() / file
    place.write_text(shipped.read_text("utf-8") if shipped.exists() else MINE, "utf-8")
    programs = check_library(Library(search_path(tmp_path)), shipped=False)
    assert {program.workflow.name for program in programs} == checked
