"""The absent value, which represents a skipped step, an omitted optional field or an output that does not exist.

This module does not depend on the rest of `templates`. The operators and filters there define how they treat absent
values.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from jinja2 import Undefined


class Absent(Undefined):
    """An absent value. It is empty and false, and any lookup on it is absent as well.

    Every comparison with an absent value is false, and printing one is an error. `path` is the path that was looked up
    (`phases.research.outputs.x`), and `gap` is the part of the path that is missing (`phases.research`). Each failed
    lookup creates its own instance, so test for absence with `isinstance(value, Absent)`.
    """

    __slots__ = ("gap", "path")

    def __init__(self, path: str = "", gap: str = "") -> None:
        super().__init__(name=path)
        self.path = path
        self.gap = gap or path

    @property
    def explanation(self) -> str:
        """A message that says which value is absent, and which part of its path is missing."""
        if not self.path:
            return "the value is absent"
        return f"`{self.path}` is absent" + (f": there is no `{self.gap}`" if self.gap != self.path else "")

    _undefined_message = explanation  # Jinja's message when the value is used

    def _false(self, _other: Any) -> bool:
        return False

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __contains__ = _false  # type: ignore[assignment]

    def __hash__(self) -> int:
        return hash(Absent)

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __bool__(self) -> bool:
        return False

    def __str__(self) -> str:
        return self._fail_with_undefined_error()

    def __repr__(self) -> str:
        return f"Absent({self.path!r})"


ABSENT: Final = Absent()
