"""Where the records of a journal are, by kind, address and fingerprint, and how far its chain has come."""

from skillrun.runtime.records import NO_CHAIN, TEXT, Row
from skillrun.runtime.witness import Witnessed


class Index:
    """Where the records are, and how far the chain has come."""

    def __init__(self) -> None:
        self.count, self.chain = 0, NO_CHAIN
        self.latest: dict[tuple[str, str, str], int] = {}
        self.latest_at: dict[tuple[str, str], int] = {}
        self.of_kind: dict[str, list[int]] = {}
        self.texts: dict[str, int] = {}
        self.unanswered: dict[tuple[str, str], None] = {}

    @property
    def witnessed(self) -> Witnessed:
        return Witnessed(self.count, self.chain.hex())

    def add(self, row: Row) -> None:
        self.count, self.chain = row.seq, row.chain
        seq, kind, address, fingerprint = row[:4]
        if kind == TEXT:
            self.texts[fingerprint] = seq
            return
        self.latest[kind, address, fingerprint] = seq
        self.latest_at[kind, address] = seq
        self.of_kind.setdefault(kind, []).append(seq)
        call = (address, fingerprint)
        if kind == "sent":
            self.unanswered[call] = None
        elif kind in ("reply", "failed"):
            self.unanswered.pop(call, None)
