"""Folders and files are swapped with links while they are read, written, listed and removed: nothing outside changes.

`SKILLRUN_SWAPS=500000` sets the number of swaps; the default is enough to detect the races found so far.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from skillrun.repository.confined_folder import ConfinedFolder
from skillrun.repository.matching import find_matching_files
from skillrun.repository.paths import PathRefused
from skillrun.store.local.local_files import LocalFiles, write_atomic

SWAPS = int(os.environ.get("SKILLRUN_SWAPS") or 80_000)
RENAME_EXCHANGE = 2  # renameat2(2)
INSIDE, OUTSIDE = b"near", b"far away"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux can swap two names atomically")


def swap(pairs: list[tuple[Path, Path]], times: int) -> None:
    """Swap the pairs this many times in total, as fast as possible."""
    renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    paths = [(os.fsencode(one), os.fsencode(other)) for one, other in pairs]
    for number in range(times):
        one, other = paths[number % len(paths)]
        renameat2(-100, one, -100, other, RENAME_EXCHANGE)


def read(tree: ConfinedFolder, _: int) -> None:
    assert tree.read("inner/file.txt", 100) == INSIDE


def list_entries(tree: ConfinedFolder, _: int) -> None:
    names = {name for name, _ in tree.entries("inner")}
    assert "mine.txt" not in names, names


def find(tree: ConfinedFolder, _: int) -> None:
    assert not any("mine" in name for name in find_matching_files(tree, "**/*"))


def write(tree: ConfinedFolder, number: int) -> None:
    write_atomic(tree, f"inner/new-{number % 3}.txt", INSIDE)


def move_file(tree: ConfinedFolder, number: int) -> None:
    LocalFiles(tree).move(f"inner/new-{number % 3}.txt", f"inner/moved-{number % 3}.txt")


def remove(tree: ConfinedFolder, number: int) -> None:
    tree.remove(f"inner/moved-{number % 3}.txt")


def make_folder(tree: ConfinedFolder, number: int) -> None:
    tree.make_folder(f"inner/folder-{number % 3}/below", 0o700)


def open_for_append(tree: ConfinedFolder, _: int) -> None:
    descriptor = tree.open("inner/file.txt", os.O_WRONLY | os.O_APPEND)
    assert os.fstat(descriptor).st_size == len(INSIDE)
    os.close(descriptor)


OPERATIONS: list[Callable[[ConfinedFolder, int], None]] = [
    read,
    list_entries,
    find,
    write,
    move_file,
    remove,
    make_folder,
    open_for_append,
]


@pytest.mark.slow
@pytest.mark.row("Z3")
@pytest.mark.finding("FZ18")
@pytest.mark.parametrize("links", [False, True])
def test_swapping_folders_and_files_with_links_reaches_nothing_outside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)  # syncing only slows down the race
    outside, root = tmp_path / "outside", tmp_path / "root"
    for folder, text in ((outside, OUTSIDE), (root / "inner", INSIDE)):
        folder.mkdir(parents=True)
        (folder / "file.txt").write_bytes(text)
    (outside / "mine.txt").write_bytes(OUTSIDE)
    (outside / "moved-0.txt").write_bytes(OUTSIDE)
    (outside / "new-1.txt").write_bytes(OUTSIDE)
    (root / "trap").symlink_to(outside)
    (root / "inner" / "trap.txt").symlink_to(outside / "file.txt")
    before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in outside.iterdir()}
    pairs = [(root / "inner", root / "trap"), (root / "inner" / "file.txt", root / "inner" / "trap.txt")]
    child = os.fork()
    if not child:
        try:
            swap(pairs, SWAPS)
        finally:
            os._exit(0)
    successes = 0
    with ConfinedFolder(root, links=links) as tree:
        for number in count():
            for operation in OPERATIONS:
                with suppress(OSError, PathRefused):
                    operation(tree, number)
                    successes += 1
            if os.waitpid(child, os.WNOHANG)[0]:
                break
    assert successes
    assert {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in outside.iterdir()} == before
    print(f"{SWAPS:,} swaps, {successes:,} successful operations")  # noqa: T201 (for manual runs)
