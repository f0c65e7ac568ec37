"""Another run's folder is swapped with a link while it is read: files outside the project are never read."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from threading import Thread

import pytest

from skillrun.repository.confined_folder import ConfinedFolder
from skillrun.repository.paths import PathRefused
from tests.unit.repository.test_races import exchange

SWAPS = int(os.environ.get("SKILLRUN_SWAPS") or 5_000)
NAME = "00-brainstorming.context.md"


@pytest.mark.row("B12", "Z3")
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux exchanges two names in one step")
@pytest.mark.parametrize("entry", ["runs", "runs/other", f"runs/other/{NAME}"])
def test_swapping_an_entry_with_a_link_never_exposes_files_outside(tmp_path: Path, entry: str) -> None:
    for folder, text in (("runs/mine", b"mine"), ("runs/other", b"theirs"), ("away/other", b"CANARY")):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / NAME).write_bytes(text)
    outside = {"runs": "away", "runs/other": "away/other", f"runs/other/{NAME}": f"away/other/{NAME}"}[entry]
    link = tmp_path / (f"{entry}-link" if entry != "runs" else "link")
    link.symlink_to(tmp_path / outside)
    found: list[bytes] = []
    with ConfinedFolder(tmp_path / "runs" / "mine") as mine:
        swaps = Thread(target=exchange, args=(tmp_path / entry, link, SWAPS))
        swaps.start()
        while swaps.is_alive() or not found:
            with suppress(PathRefused, OSError), mine.sibling("other") as other:
                found.append(other.read(NAME, 100))
        swaps.join()
    assert set(found) == {b"theirs"}


@pytest.mark.row("B12")
def test_a_link_next_to_a_run_is_not_a_sibling(tmp_path: Path) -> None:
    (tmp_path / "runs" / "mine").mkdir(parents=True)
    (tmp_path / "away").mkdir()
    (tmp_path / "runs" / "other").symlink_to(tmp_path / "away")
    with ConfinedFolder(tmp_path / "runs" / "mine") as mine:
        with pytest.raises(PathRefused, match="symbolic link"):
            mine.sibling("other")
        with pytest.raises(FileNotFoundError):
            mine.sibling("nobody")
