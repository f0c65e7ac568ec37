"""Phases and steps whose calls are sent again, once each, although the journal has their replies."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field


@dataclass
class Rerun:
    """`places` are phases (`draft`) or steps (`draft/words`). Kept when an evaluation is interrupted."""

    places: Collection[str] = ()
    called_addresses: set[str] = field(default_factory=set)
    """The addresses of the calls that were sent since the rerun was requested."""

    def is_pending(self, address: str) -> bool:
        """Return whether the call at this address must still be sent again."""
        path = address.partition("/")[2]
        return address not in self.called_addresses and any(f"{path}/".startswith(f"{place}/") for place in self.places)
