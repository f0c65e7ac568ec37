"""The transcript of a run, `.run/transcript.ndjson`: one event per line, written as it happens.

Reading returns only valid events, and never loads the whole file at once.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Final

from skillrun import events as kinds
from skillrun.repository.confined_folder import ConfinedFolder
from skillrun.store.event_lines import MAX_EVENTS, OMITTED_EVENTS, Record, Transcript, parse_event_line
from skillrun.store.local.lock import LocalLease
from skillrun.syntax.diagnostics import SkillrunError

TRANSCRIPT: Final = ".run/transcript.ndjson"
POLL: Final = 0.2  # seconds between reads of a growing transcript
LONGEST: Final = 16_000_000  # bytes of a line
SIZE: Final = 1 << 20  # bytes per read


class LocalTranscript(Transcript):
    """Writes every event of a run to disk."""

    what = f"the transcript ({TRANSCRIPT})"

    def __init__(self, folder: ConfinedFolder) -> None:
        """Open the transcript in the run's folder. Raises PathRefused if the file is a link or not a regular file."""
        super().__init__()
        self._folder = folder
        self._file: int | None = None
        self._is_cut = False
        try:
            self._file = folder.open(TRANSCRIPT, os.O_RDWR | os.O_APPEND | os.O_CREAT)
            size = os.fstat(self._file).st_size
            self._is_cut = bool(size) and os.pread(self._file, 1, size - 1) != b"\n"  # by a kill or a full disk
        except OSError as error:
            self._error = error

    def _write(self) -> None:
        self._flush = None
        data = ("\n" * self._is_cut + "".join(f"{line}\n" for line in self._lines)).encode()
        self._lines, self._is_cut = [], False
        try:
            self._folder.check(verify_path=False)
            while data and self._file is not None and self._error is None:
                data = data[os.write(self._file, data) :]
        except (OSError, SkillrunError) as error:
            self._error = error

    def close(self) -> Exception | None:
        error = super().close()
        if self._file is not None:
            os.close(self._file)
        return error


def read_events(folder: ConfinedFolder, *, follow: bool = False) -> Iterator[Record]:
    """Yield the events of the transcript, oldest first. With `follow`, continue until the run ends.

    Lines without a valid event are left out, and all but the last `MAX_EVENTS` lines, with a notice. Reading stops at a
    line that is too long; the last event then reports the problem.
    """
    try:
        omitted_count = max(0, _count_lines(folder) - MAX_EVENTS)
        if omitted_count:
            yield {**OMITTED_EVENTS}
        yield from filter(None, map(parse_event_line, islice(read_lines(folder, follow=follow), omitted_count, None)))
    except PermissionError:
        yield {**kinds.Notice("only the owner of this run may read its transcript", "warn").to_dict()}
    except EndlessLine as error:
        yield {**kinds.Notice(error.message, "warn").to_dict()}


def _count_lines(folder: ConfinedFolder) -> int:
    try:
        with os.fdopen(folder.open(TRANSCRIPT), "rb", buffering=0) as file:
            return sum(chunk.count(b"\n") for chunk in iter(partial(file.read, SIZE), b""))
    except FileNotFoundError:
        return 0


class EndlessLine(SkillrunError):
    """A line of a transcript is longer than any line that a run writes."""


def read_lines(folder: ConfinedFolder, *, follow: bool = False) -> Iterator[bytes]:
    """Yield the lines of the transcript without newlines. With `follow`, continue until the run ends.

    A truncated last line is left out. Raises PermissionError, EndlessLine.
    """
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
                    hint = "which is invalid; the rest is skipped"
                    raise EndlessLine(f"{TRANSCRIPT} has a line of more than {LONGEST:,} bytes, {hint}")
            if not is_held:
                return
            time.sleep(POLL)
