"""Only `store` and `postgres` may access the database and the paths of a run. The linter checks imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import skillrun

ENGINE = Path(skillrun.__file__).parent
OWN = (".run", "journal.db", "witness", "owner.json", "transcript.ndjson", "state.md", "summaries")
"""What a run's own files are called."""


def paths_of_a_run(source: str) -> Iterator[str]:
    """Return the lines that join a path with the name of a run's own file, or that open or read such a name."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            asked: list[ast.expr] = [node.right]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
            asked = node.args if called in ("known", "read", "open", "joinpath", "Path", "is_file", "entries") else []
        else:
            continue
        for one in asked:
            name = one.id if isinstance(one, ast.Name) else getattr(one, "value", "")
            if name == "STATE" or (isinstance(name, str) and name.partition("/")[0] in OWN):
                yield ast.unparse(node)


MODULES = sorted(
    path.relative_to(ENGINE).as_posix()
    for path in ENGINE.rglob("*.py")
    if not path.is_relative_to(ENGINE / "store") and "postgres" not in path.parts
)


@pytest.mark.slow
def test_no_module_outside_of_the_store_makes_a_path_of_a_run() -> None:
    found = {
        module: paths
        for module in MODULES
        if (paths := list(paths_of_a_run((ENGINE / module).read_text(encoding="utf-8"))))
    }
    assert found == {}


@pytest.mark.parametrize(
    "line", ["folder / 'state.md'", "run / STATE", "tree.known(STATE)", "tree.read('.run/witness', 9)", "Path('.run')"]
)
def test_such_a_path_is_found(line: str) -> None:
    assert list(paths_of_a_run(line)) == [line]


def test_the_store_itself_makes_them() -> None:
    sources = (path.read_text(encoding="utf-8") for path in (ENGINE / "store").rglob("*.py"))
    assert any(True for source in sources for _ in paths_of_a_run(source))
