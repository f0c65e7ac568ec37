"""Only `store` and `postgres` access the paths of a run. The linter checks imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import skillrun

ENGINE = Path(skillrun.__file__).parent
RUN_FILES = (".run", "journal.db", "witness", "owner.json", "transcript.ndjson", "state.md", "summaries")
"""The names of a run's own files."""


def find_run_paths(source: str) -> Iterator[str]:
    """Return the lines that join a path with the name of a run's own file, or that open or read such a name."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            operands: list[ast.expr] = [node.right]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name):
            function = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
            operands = (
                node.args if function in ("known", "read", "open", "joinpath", "Path", "is_file", "entries") else []
            )
        else:
            continue
        for operand in operands:
            name = operand.id if isinstance(operand, ast.Name) else getattr(operand, "value", "")
            if name == "STATE" or (isinstance(name, str) and name.partition("/")[0] in RUN_FILES):
                yield ast.unparse(node)


MODULES = sorted(
    path.relative_to(ENGINE).as_posix()
    for path in ENGINE.rglob("*.py")
    if not path.is_relative_to(ENGINE / "store") and "postgres" not in path.parts
)


@pytest.mark.slow
def test_no_module_outside_of_the_store_uses_a_path_of_a_run() -> None:
    paths_by_module = {
        module: paths
        for module in MODULES
        if (paths := list(find_run_paths((ENGINE / module).read_text(encoding="utf-8"))))
    }
    assert paths_by_module == {}


@pytest.mark.parametrize(
    "line", ["folder / 'state.md'", "run / STATE", "tree.known(STATE)", "tree.read('.run/witness', 9)", "Path('.run')"]
)
def test_a_path_of_a_run_is_detected(line: str) -> None:
    assert list(find_run_paths(line)) == [line]


def test_the_store_uses_paths_of_a_run() -> None:
    sources = (path.read_text(encoding="utf-8") for path in (ENGINE / "store").rglob("*.py"))
    assert any(True for source in sources for _ in find_run_paths(source))
