"""A folder is swapped with a link repeatedly while tools read: files outside are never shown."""

from __future__ import annotations

import asyncio
import ctypes
import os
import sys
from itertools import cycle
from pathlib import Path
from threading import Thread
from typing import Any, Final

import pytest

from skillrun.repository.confined_folder import ConfinedFolder
from skillrun.repository.readable_folder import ReadableFolder
from skillrun.repository.repository import Repository

SWAPS: Final = int(os.environ.get("SKILLRUN_SWAPS", "20000"))
SECRET: Final = "the secret of the folder next door"
AT_FDCWD: Final = -100  # names are relative to the working directory
RENAME_EXCHANGE: Final = 2  # renameat2(2)
TOOL_CALLS: Final[list[tuple[str, dict[str, Any]]]] = [
    ("Read", {"path": "open/file.txt"}),
    ("Read", {"path": "open/inner/../file.txt"}),
    ("Grep", {"pattern": "secret"}),
    ("Grep", {"pattern": "secret", "path": "open"}),
    ("List", {"path": "open"}),
    ("Glob", {"pattern": "*.txt"}),
]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux can swap two names atomically")


def exchange(first: Path, second: Path, times: int) -> None:
    """Swap two names this many times."""
    libc = ctypes.CDLL(None, use_errno=True)
    one, other = os.fsencode(first), os.fsencode(second)
    for _ in range(times):
        if libc.renameat2(AT_FDCWD, one, AT_FDCWD, other, RENAME_EXCHANGE):
            raise OSError(ctypes.get_errno(), "renameat2")


@pytest.mark.slow
@pytest.mark.finding("FZ18")
@pytest.mark.row("Z3")
@pytest.mark.parametrize("outside", ["../next-door", ".git", "build"])
def test_no_outside_file_is_shown_while_a_folder_and_a_link_are_swapped(tmp_path: Path, outside: str) -> None:
    root = tmp_path / "root"
    (root / "open" / "inner").mkdir(parents=True)
    (root / "open" / "file.txt").write_text("what may be read, with no secret\n")
    (root / ".gitignore").write_text("build/\n")
    (root / outside / "inner").mkdir(parents=True)
    (root / outside / "file.txt").write_text(SECRET)
    (root / outside / "another-name.txt").write_text(SECRET)
    (root / "door").symlink_to(outside)
    swaps = Thread(target=exchange, args=(root / "open", root / "door", SWAPS))
    repository = Repository(lambda: ReadableFolder(ConfinedFolder(root, links=True)))
    answers: list[str] = []

    async def call_tools() -> None:
        tool_calls = cycle(TOOL_CALLS)
        while swaps.is_alive() or len(answers) < len(TOOL_CALLS):
            tool, arguments = next(tool_calls)
            answers.append(await repository.run(tool, arguments))

    swaps.start()
    asyncio.run(call_tools())
    swaps.join()
    assert not [answer for answer in answers if SECRET in answer or "another-name" in answer]
    assert any("what may be read" in answer for answer in answers)
