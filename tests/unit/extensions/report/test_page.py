"""Extreme values on the report page."""

from __future__ import annotations

from typing import Any

import pytest

from skillrun.extensions.report.markdown_html import MarkdownRenderer
from skillrun.extensions.report.page import _environment

TREE = '{% import "calls.html" as told with context %}{{ told.tree(value) }}'


@pytest.mark.row("A6")
@pytest.mark.parametrize("depth", [5, 40, 400])
def test_a_deep_value_is_shown_up_to_a_limit(depth: int) -> None:
    value: Any = "<b>deep</b>"
    for _ in range(depth):
        value = {"items": [value]}
    html = _environment(MarkdownRenderer({})).from_string(TREE).render(value=value, anchors={}, limit=100)
    assert ("&lt;b&gt;deep&lt;/b&gt;" in html) is (depth < 400)
    assert html.count('<dl class="tree">') <= 5
    assert ("too deep" in html) is (depth == 400)
