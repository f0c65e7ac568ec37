"""A journal in memory over one on disk: what `--dry-run`, `--preview` and rehearsals record, and nobody keeps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from skillrun.runtime.journal import Entry
from skillrun.runtime.records import Kind


class Recording(Protocol):
    """What the interpreter needs of a journal."""

    async def record(self, kind: Kind, address: str, fingerprint: str, body: dict[str, Any]) -> None: ...
    def find(self, kind: Kind, address: str, fingerprint: str) -> dict[str, Any] | None: ...
    def entries(self, kind: Kind) -> Iterator[Entry]: ...
    def unanswered(self) -> list[tuple[str, str]]: ...
    def close(self) -> None: ...


class MemoryJournal:
    """Reads `base` first, records in memory, and leaves `base` as it is."""

    def __init__(self, base: Recording | None = None) -> None:
        self._base = base
        self._records: list[tuple[Kind, Entry]] = []
        self._latest: dict[tuple[str, str, str], dict[str, Any]] = {}

    async def record(self, kind: Kind, address: str, fingerprint: str, body: dict[str, Any]) -> None:
        self._records.append((kind, Entry(len(self._records) + 1, address, fingerprint, body)))
        self._latest[(kind, address, fingerprint)] = body

    def find(self, kind: Kind, address: str, fingerprint: str) -> dict[str, Any] | None:
        found = self._latest.get((kind, address, fingerprint))
        if found is None and self._base is not None:
            return self._base.find(kind, address, fingerprint)
        return found

    def entries(self, kind: Kind) -> Iterator[Entry]:
        if self._base is not None:
            yield from self._base.entries(kind)
        yield from (entry for one, entry in self._records if one == kind)

    def unanswered(self) -> list[tuple[str, str]]:
        return []

    def close(self) -> None:
        """Nothing is kept."""
