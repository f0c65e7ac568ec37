"""Valid run names."""

from __future__ import annotations

import pytest

from skillrun.repository.paths import require_slug
from skillrun.syntax.diagnostics import UsageError


@pytest.mark.row("B12")
@pytest.mark.parametrize("name", ["a", "0", "my-feature", "a" * 64, "2024-01-01-x"])
def test_valid_run_names_are_accepted(name: str) -> None:
    assert require_slug(name) == name


@pytest.mark.row("B12")
@pytest.mark.parametrize("name", ["", "-a", "A", "a b", "a" * 65, "a/b", "..", "a\n", "ä", "a_b", "a.b", "\0"])
def test_other_run_names_are_refused_with_the_allowed_format(name: str) -> None:
    with pytest.raises(UsageError) as caught:
        require_slug(name)
    assert "at most 64" in caught.value.next_step
