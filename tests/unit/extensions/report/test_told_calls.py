"""The labels of calls on the page."""

from __future__ import annotations

import pytest

from skillrun.extensions.report.call_views import _choose_letters


@pytest.mark.row("A6")
def test_members_with_similar_names_get_distinct_letters() -> None:
    taken: list[str] = []
    for member in ("safety", "security", "judge:risk", "judge:reach", "judge@openai:gpt", "s", "s2"):
        taken.append(_choose_letters(member, taken))
    assert taken == ["SA", "SE", "JR", "JE", "JG", "S2", "S3"]
