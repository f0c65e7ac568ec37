"""The example project of the manual with its symbol index. In texts, `¦` marks the cursor."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

from skillrun.extensions.lsp.symbol_index import SymbolIndex
from skillrun.extensions.lsp.workspace import CheckedLibrary, recheck
from skillrun.library.library import Library
from skillrun.library.roots import search_path

MANUAL = Path(__file__).parents[4] / "docs" / "language.md"
_FILE = re.compile(r"```(?:markdown|yaml) file=(\S+)\n(.*?)```", re.DOTALL)
CASE = """\
---
inputs: {report: It broke, depth: long}
expect:
  path: [intake, judging]
  outputs: {intake: {urgency: high}}
---
"""


@dataclass
class Project:
    """A project on disk with its symbol index."""

    folder: Path
    index: SymbolIndex

    @cached_property
    def checked(self) -> CheckedLibrary:
        """The check result of the project on disk, which rechecks start from."""
        return recheck(self.index.library.fork(), ())

    def text(self, name: str) -> str:
        return (self.folder / name).read_text(encoding="utf-8")

    def edit(self, name: str, old: str, new: str) -> tuple[Path, str, str, int]:
        """Replace `old` with `new`, which contains the cursor, and return the arguments of the editor functions."""
        text = self.text(name)
        assert old in text, f"{name} has no {old!r}"
        text = text.replace(old, new, 1)
        offset = text.index("¦")
        return self.folder / name, name, text[:offset] + text[offset + 1 :], offset


def build_index(folder: Path) -> SymbolIndex:
    """Check a project and return its symbol index."""
    library = Library(search_path(folder))
    index = SymbolIndex(library)
    index.update(part.symbols for part in recheck(library, ()).parts.values())
    return index


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    folder = tmp_path_factory.mktemp("project")
    files = {match[1]: match[2] for match in _FILE.finditer(MANUAL.read_text(encoding="utf-8"))}
    for name, text in {**files, "tests/triage/broken.md": CASE}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    yield Project(folder, build_index(folder))
    shutil.rmtree(folder)
