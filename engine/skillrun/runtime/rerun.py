"""What is to be asked again although the journal has its answer: phases and steps, each call of them once."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field


@dataclass
class Rerun:
    """`places`: a phase (`draft`) or a step in it (`draft/words`). It outlives an evaluation that was broken off."""

    places: Collection[str] = ()
    called_addresses: set[str] = field(default_factory=set)
    """The addresses of the calls that were sent since it was wished for."""

    def is_pending(self, address: str) -> bool:
        """Whether a call there is still to be asked again."""
        path = address.partition("/")[2]
        return address not in self.called_addresses and any(f"{path}/".startswith(f"{place}/") for place in self.places)
