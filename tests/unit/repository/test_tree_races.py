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
from skillrun.store.local.atomic import move, write_atomic

SWAPS = int(os.environ.get("SKILLRUN_SWAPS") or 80_000)
EXCHANGE = 2  # of renameat2(2)
NEAR, FAR = b"near", b"far away"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux exchanges two names at once")


def swap(pairs: list[tuple[Path, Path]], times: int) -> None:
    """Swap the pairs this many times in total, as fast as possible."""
    renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    named = [(os.fsencode(one), os.fsencode(other)) for one, other in pairs]
    for number in range(times):
        one, other = named[number % len(named)]
        renameat2(-100, one, -100, other, EXCHANGE)


def read(tree: ConfinedFolder, _: int) -> None:
    assert tree.read("inner/file.txt", 100) == NEAR


def listed(tree: ConfinedFolder, _: int) -> None:
    names = {name for name, _ in tree.entries("inner")}
    assert "mine.txt" not in names, names


def found(tree: ConfinedFolder, _: int) -> None:
    assert not any("mine" in name for name in find_matching_files(tree, "**/*"))


def written(tree: ConfinedFolder, number: int) -> None:
    write_atomic(tree, f"inner/new-{number % 3}.txt", NEAR)


def moved(tree: ConfinedFolder, number: int) -> None:
    move(tree, f"inner/new-{number % 3}.txt", f"inner/moved-{number % 3}.txt")


def removed(tree: ConfinedFolder, number: int) -> None:
    tree.remove(f"inner/moved-{number % 3}.txt")


def made(tree: ConfinedFolder, number: int) -> None:
    tree.make_folder(f"inner/folder-{number % 3}/below", 0o700)


def appended(tree: ConfinedFolder, _: int) -> None:
    descriptor = tree.open("inner/file.txt", os.O_WRONLY | os.O_APPEND)
    assert os.fstat(descriptor).st_size == len(NEAR)
    os.close(descriptor)


ACTS: list[Callable[[ConfinedFolder, int], None]] = [read, listed, found, written, moved, removed, made, appended]


@pytest.mark.slow
@pytest.mark.row("Z3")
@pytest.mark.finding("FZ18")
@pytest.mark.parametrize("links", [False, True])
def test_exchanging_folders_and_files_for_links_reaches_nothing_outside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)  # it would only slow down the race
    outside, root = tmp_path / "outside", tmp_path / "root"
    for folder, text in ((outside, FAR), (root / "inner", NEAR)):
        folder.mkdir(parents=True)
        (folder / "file.txt").write_bytes(text)
    (outside / "mine.txt").write_bytes(FAR)
    (outside / "moved-0.txt").write_bytes(FAR)
    (outside / "new-1.txt").write_bytes(FAR)
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
    done = 0
    with ConfinedFolder(root, links=links) as tree:
        for number in count():
            for act in ACTS:
                with suppress(OSError, PathRefused):
                    act(tree, number)
                    done += 1
            if os.waitpid(child, os.WNOHANG)[0]:
                break
    assert done
    assert {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in outside.iterdir()} == before
    print(f"{SWAPS:,} exchanges, {done:,} acts that went through")  # noqa: T201 (for manual runs)
