"""The data of a run are read even if its journal contains records that no run writes."""

from __future__ import annotations

import asyncio
import time

from skillrun.store.artifacts import Refusals
from skillrun.store.memory import MemoryFiles, MemoryJournal
from skillrun.store.run_data import RunData


def test_a_summary_record_with_a_foreign_address_is_compared_like_any_other() -> None:
    journal, files = MemoryJournal(), MemoryFiles()
    asyncio.run(journal.record("summary", "notes.md", "0" * 64, {}))
    for name in ("notes.md", "round-1/notes.md"):
        files.write(name, "text")
    assert RunData(files, journal).edited_files() == ["notes.md", "round-1/notes.md"]


def test_many_refused_records_are_collected_in_linear_time() -> None:
    refusals, heard = Refusals(), list[str]()
    refusals.listen(heard.append)
    lines = [
        f"the journal says that the run wrote `../{number}`, which is not a valid name" for number in range(50_000)
    ]
    begun = time.process_time()
    for line in [*lines, *lines]:
        refusals.refuse(line)
    assert time.process_time() - begun < 5
    assert refusals.lines == heard == lines
