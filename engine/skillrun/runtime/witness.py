"""The witness: how many journal records are durable and the head of their chain, kept outside the database.

It is rewritten in place, within one disk sector, and not synced: after a power cut it is an older true line. It counts
only what the journal has synced before, so it may be behind the journal and is never ahead of it.
"""

import os
import re
from pathlib import Path
from typing import NamedTuple

from skillrun.runtime.files import write_atomic

_LINE = re.compile(rb"(\d{20}) ([0-9a-f]{64})\n")


class Witnessed(NamedTuple):
    records: int
    head: str


def read_witness(path: Path) -> Witnessed | None:
    """What was witnessed; None when there is no witness. Raises ValueError when the file is not one."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    line = _LINE.fullmatch(data)
    if line is None:
        raise ValueError(f"it holds {data[:100]!r}")
    return Witnessed(int(line[1]), line[2].decode())


class Witness:
    """The open witness of a journal, made when there is none."""

    def __init__(self, path: Path, witnessed: Witnessed) -> None:
        if not path.exists():
            write_atomic(path, _line(witnessed), mode=0o600)
        self._descriptor = os.open(path, os.O_WRONLY)
        self.write(witnessed)

    def write(self, witnessed: Witnessed) -> None:
        os.pwrite(self._descriptor, _line(witnessed), 0)

    def close(self) -> None:
        os.close(self._descriptor)


def _line(witnessed: Witnessed) -> bytes:
    return b"%020d %s\n" % (witnessed.records, witnessed.head.encode())
