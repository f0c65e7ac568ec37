"""An index of a journal's records by their lookup keys, with the head of the chain."""

from __future__ import annotations

from skillrun.store.journal import JournalRow
from skillrun.store.rows import NO_CHAIN, TEXT

REUSED_SUFFIX = "/again"
"""The end of the address of a note that makes an earlier prompt at an address the current one again."""


class Index:
    """The numbers of the records, and the head of the chain."""

    def __init__(self) -> None:
        self.count, self.chain = 0, NO_CHAIN
        self.latest: dict[tuple[str, str, str], int] = {}
        self.of_kind: dict[str, list[int]] = {}
        self.texts: dict[str, int] = {}
        self.unanswered: dict[tuple[str, str], None] = {}
        self.present: dict[str, str] = {}
        self.calls = 0
        self.packs = False
        self._tried: set[tuple[str, str]] = set()

    def add(self, row: JournalRow) -> None:
        self.count, self.chain = row.seq, row.chain
        seq, kind, address, fingerprint = row[:4]
        if kind == TEXT:
            self.texts[fingerprint] = seq
            return
        self.latest[kind, address, fingerprint] = seq
        self.of_kind.setdefault(kind, []).append(seq)
        call = (address, fingerprint)
        if kind == "note" and address.endswith(REUSED_SUFFIX):
            self.present[address.removesuffix(REUSED_SUFFIX)] = fingerprint
        elif kind == "sent":
            self.present[address] = fingerprint
            self.unanswered[call] = None
            self.calls += call not in self._tried
        elif kind in ("tried", "reply", "failed"):
            self.unanswered.pop(call, None)
            (self._tried.add if kind == "tried" else self._tried.discard)(call)
