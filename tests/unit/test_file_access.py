# ruff: noqa: SIM905 (lists of names)
"""The engine opens, writes and removes files only in the modules that check names, with a short list of exceptions.

A name can come from a project, a run folder, a row of a store or a bundle, and can be hostile. A new call in another
module belongs into `ConfinedFolder`, `open_user_path` or `read_source`, or needs a reason here.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

import skillrun

PACKAGE: Final = Path(skillrun.__file__).parent
CHECKING: Final = {  # modules that check each name and each file
    "repository/confined_folder.py": "folders that no name leads out of",
    "syntax/reading.py": "author's files, through descriptors and within a folder",
}
SHIPPED: Final = "reads only files of the package"
TEMPORARY: Final = "writes only to a new temporary folder, under fixed names"
USERS: Final = "files of the user's own configuration, data and cache, whose names are fixed"
EXCEPTIONS: Final = {
    "checker/checker.py": SHIPPED,
    "cli/new.py": SHIPPED,
    "cli/options.py": "a pipe that the user names, and its copy in a new temporary folder",
    "cli/output.py": "the null device",
    "cli/usage_errors.py": "the log file of a crash, whose name is chosen by the system",
    "extensions/authoring/eject.py": f"{SHIPPED}, and {TEMPORARY}",
    "extensions/report/page.py": SHIPPED,
    "extensions/testing/compare.py": TEMPORARY,
    "extensions/workers/bundle.py": "unpacks into a new folder of the worker's cache; checks each name",
    "extensions/workers/commands/store.py": TEMPORARY,
    "extensions/workers/fetching.py": "unpacks into a new folder of the worker's cache; git checks each name",
    "extensions/workers/postgres/files.py": TEMPORARY,
    "extensions/workers/postgres/maintenance.py": SHIPPED,
    "extensions/workers/work.py": TEMPORARY,
    "extensions/workers/working_copy.py": "the folder of `store pull`, which the user names",
    "installation.py": "what the package manager wrote about the package",
    "library/privileged_settings.py": USERS,
    "models/capabilities.py": USERS,
    "models/model_lists.py": USERS,
    "models/weights.py": USERS,
    "registry.py": "what the package manager wrote about installed packages",
    "repository/git.py": "unpacks into a new folder; checks each name",
    "repository/paths.py": "a new empty file, which shows who owns new files",
    "store/kill_points.py": "the log of a test",
    "store/local/journal.py": "SQLite, in a folder that is open",
    "store/local/local_files.py": "renames between two open folders",
    "store/local/local_run.py": "removes a folder only if it is empty",
    "store/local/local_store.py": "creates the folder of runs, and removes it only if it is empty",
    "store/local/signing_key.py": USERS,
    "store/local/verification.py": "a copy of the journal in a new temporary folder",
}
METHODS: Final = frozenset(
    "read_text read_bytes write_text write_bytes unlink rmdir touch symlink_to hardlink_to mkdir".split()
)
FUNCTIONS: Final = {
    "os": frozenset(
        [
            "open",
            "replace",
            "rename",
            "unlink",
            "remove",
            "rmdir",
            "mkdir",
            "makedirs",
            "link",
            "symlink",
            "truncate",
            "mkfifo",
        ]
    ),
    "shutil": frozenset("copy copy2 copyfile copyfileobj copytree move rmtree unpack_archive".split()),
    "tempfile": frozenset("NamedTemporaryFile TemporaryDirectory TemporaryFile mkdtemp mkstemp".split()),
    "tarfile": frozenset({"open"}),
    "zipfile": frozenset({"ZipFile"}),
    "io": frozenset({"open", "FileIO"}),
}
MODE: Final = re.compile("[rwax][bt]?[+]?|[rwax][+]b")


def file_calls(tree: ast.Module) -> Iterator[str]:
    """Yield the calls that open, write or remove a file by a name."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        function, first = node.func, node.args[0] if node.args else None
        text = f"line {node.lineno}: {ast.unparse(function)}"
        if isinstance(function, ast.Name) and function.id == "open":
            if not (isinstance(first, ast.Attribute) and first.attr == "descriptor"):
                yield text
        elif isinstance(function, ast.Attribute):
            module = function.value.id if isinstance(function.value, ast.Name) else ""
            has_mode = isinstance(first, ast.Constant) and MODE.fullmatch(str(first.value))
            if function.attr in FUNCTIONS.get(module, METHODS) or (function.attr == "open" and has_mode):
                yield text


@pytest.mark.finding("FS4", "FS9")
@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_files_are_opened_only_where_their_names_are_checked(path: Path) -> None:
    name = path.relative_to(PACKAGE).as_posix()
    if name in CHECKING or name.startswith("content/"):
        return
    calls = list(file_calls(ast.parse(path.read_text(encoding="utf-8"))))
    if name in EXCEPTIONS:
        assert calls, f"{name} no longer opens a file: remove it from EXCEPTIONS"
    else:
        assert not calls, f"use ConfinedFolder, open_user_path or read_source: {', '.join(calls)}"


@pytest.mark.parametrize(
    ("code", "is_found"),
    [
        ("open(path)", True),
        ("path.open('rb')", True),
        ("path.read_text()", True),
        ("Path(name).write_bytes(b'')", True),
        ("os.replace(a, b)", True),
        ("shutil.rmtree(a)", True),
        ("tempfile.mkdtemp()", True),
        ("open(opened.descriptor, 'rb')", False),
        ("folder.open(name)", False),
        ("folder.read(name, 5)", False),
        ("os.stat(path)", False),
    ],
)
def test_calls_that_open_files_are_found(code: str, is_found: bool) -> None:
    assert bool(list(file_calls(ast.parse(code)))) is is_found
