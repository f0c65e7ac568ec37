"""The transcript of a run, `.run/transcript.ndjson`: every event on a line, as it comes, and read back line by line.

What is read is only what can be an event, and never the whole file at once.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterable, Iterator
from typing import Final

from skillrun import events as kinds
from skillrun.events import Event
from skillrun.repository.confined_folder import ConfinedFolder
from skillrun.store.event_lines import Record, format_event_line, parse_event_line
from skillrun.store.local.lock import LocalLease
from skillrun.syntax.diagnostics import SkillrunError

TRANSCRIPT: Final = ".run/transcript.ndjson"
FLUSH: Final = 0.1  # seconds
POLL: Final = 0.2  # seconds between two looks at a transcript that grows
LONGEST: Final = 16_000_000  # bytes of a line
SIZE: Final = 1 << 20  # bytes that are read at once


class LocalTranscript:
    """What hears every event of a run and has it on disk within a moment."""

    what = f"the transcript ({TRANSCRIPT})"

    def __init__(self, folder: ConfinedFolder) -> None:
        """In the run's folder. Raises PathRefused where the file is a link or nothing regular."""
        self._folder = folder
        self._file: int | None = None
        self._flush: asyncio.TimerHandle | None = None
        self._lines: list[str] = []
        self._error: Exception | None = None
        try:
            self._file = folder.open(TRANSCRIPT, os.O_RDWR | os.O_APPEND | os.O_CREAT)
            size = os.fstat(self._file).st_size
            if size and os.pread(self._file, 1, size - 1) != b"\n":  # cut off by a kill or a full disk
                self._lines.append("\n")
        except OSError as error:
            self._error = error

    def write_event(self, event: Event) -> None:
        """Raises why the file could not be opened, or an earlier line not be written."""
        if self._error is not None:
            raise self._error
        self._lines.append(format_event_line(event) + "\n")
        if self._flush is None:
            self._flush = asyncio.get_running_loop().call_later(FLUSH, self._write)

    def restore(self, lines: Iterable[str]) -> None:
        """Take over the lines of another transcript."""
        self._lines += [f"{line}\n" for line in lines]

    def _write(self) -> None:
        """Write what was heard; a failure is kept for whoever comes next, because nobody waits for this one."""
        self._flush = None
        data, self._lines = "".join(self._lines).encode(), []
        try:
            self._folder.check(verify_path=False)
            while data and self._file is not None and self._error is None:
                data = data[os.write(self._file, data) :]
        except (OSError, SkillrunError) as error:
            self._error = error

    def close(self) -> Exception | None:
        """Write what is left; why not all of it was written, where it was not."""
        if self._flush is not None:
            self._flush.cancel()
        self._write()
        if self._file is not None:
            os.close(self._file)
        return self._error


def read_events(folder: ConfinedFolder, *, follow: bool = False) -> Iterator[Record]:
    """The transcript, oldest first, and with `follow` what comes until the run ends; a line that is no event is left
    out. Where a line never ends, the rest is not read, and that is the last event.
    """
    try:
        yield from filter(None, map(parse_event_line, read_lines(folder, follow=follow)))
    except PermissionError:
        yield {**kinds.Notice("the transcript of this run is its owner's", "warn").to_dict()}
    except EndlessLine as error:
        yield {**kinds.Notice(error.message, "warn").to_dict()}


class EndlessLine(SkillrunError):
    """A transcript has a line that no run writes."""


def read_lines(folder: ConfinedFolder, *, follow: bool = False) -> Iterator[bytes]:
    """The lines of the transcript without their ends, and with `follow` what comes until the run ends; one that is cut
    off is left out. Raises PermissionError, EndlessLine."""
    try:
        file = os.fdopen(folder.open(TRANSCRIPT), "rb", buffering=0)
    except FileNotFoundError:
        return
    with file:
        rest = b""
        while True:
            is_held = follow and LocalLease(folder).is_held()
            while chunk := file.read(SIZE):
                *whole, rest = (rest + chunk).split(b"\n") if b"\n" in chunk else (rest + chunk,)
                yield from whole
                if len(rest) > LONGEST:
                    text = f"{TRANSCRIPT} has a line of more than {LONGEST:,} bytes, which no run writes; it ends here"
                    raise EndlessLine(text)
            if not is_held:
                return
            time.sleep(POLL)
