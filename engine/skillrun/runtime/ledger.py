"""Which texts the run itself has written, by artifact: the `wrote` records of its journal."""

from __future__ import annotations

from skillrun.runtime.memory import Recording


class Ledger:
    """Answers whether the run wrote a text with this hash to this artifact, and which was the last."""

    def __init__(self, journal: Recording) -> None:
        self._journal = journal
        self._known: dict[str, list[str]] = {}
        for entry in journal.entries("wrote"):
            self._known.setdefault(entry.address, []).append(entry.fingerprint)

    def wrote(self, name: str, sha: str) -> bool:
        return sha in self._known.get(name, ())

    def last(self, name: str) -> str | None:
        found = self._known.get(name)
        return found[-1] if found else None

    def names(self) -> list[str]:
        return list(self._known)

    async def note(self, name: str, sha: str) -> None:
        self._known.setdefault(name, []).append(sha)
        await self._journal.record("wrote", name, sha, {})
