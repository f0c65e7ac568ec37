"""Typical YAML mistakes are explained in the author's terms, at their place."""

import pytest

from skillrun.syntax.diagnostics import Problems
from skillrun.syntax.source import Source
from skillrun.syntax.yaml import parse_yaml

QUOTE = "put the whole value in quotes"
INDENT = "keys that belong together start in the same column"
UNMATCHED, ABOVE = "the indentation of this line", "matches no line above"


@pytest.mark.parametrize(
    ("text", "place", "message", "hint"),
    [
        (
            "a: see: this\n",
            (1, 7),
            "a value with `: ` in it must be quoted",
            f"{QUOTE}; if this is a separate key, {INDENT}",
        ),
        (
            "a: {b c d: e: f}\n",
            (1, 13),
            "a value with `: ` in it must be quoted",
            "put a `,` before `e:`, or put the whole value in quotes",
        ),
        ("a: 1\nb\nc: 2\n", (2, 1), "`b` is not a key with a value", "write `key: value`"),
        ("a: 1\nwhen:x\n", (2, 5), "a space is missing after the colon", "write `when: …`"),
        ("a: 'x' == y\n", (1, 8), "unexpected text after the value of the key", QUOTE),
        ("a: [x] y\n", (1, 8), "unexpected text after the value of the key", QUOTE),
        (
            "a:\n  b: 1\n c: 2\n",
            (3, 2),
            f"{UNMATCHED} (column 2) {ABOVE}",
            f"start the line in column 3 or 1; {INDENT}",
        ),
        ("a:\n\tb: 1\n", (2, 1), "YAML expects spaces here, not a tab", "indent with spaces"),
        ("a: b\n\tc: 1\n", (2, 1), "YAML expects spaces here, not a tab", "indent with spaces"),
        ("a: 'b\nc: d\n", (1, 4), "the quote `'` is never closed", ""),
        ('a: "\\d"\n', (1, 5), "`\\d` is not an escape in YAML", "write `\\\\` for a backslash, or use single quotes"),
        ("a: **b** c\n", (1, 4), "a value that starts with `*` must be quoted", QUOTE),
        ("a: @b\n", (1, 4), "a value that starts with `@` must be quoted", QUOTE),
        ("a: `b`\n", (1, 4), "a value that starts with a backtick must be quoted", QUOTE),
        ("a: - b\n", (1, 4), "YAML: block sequence entries are not allowed in this context", QUOTE),
        ("a: >= 3\n", (1, 4), "a value that starts with `>` must be quoted", QUOTE),
        (
            "a: {b: c\nd: e\n",
            (2, 2),
            "`,` or `}` is missing here",
            "the `{` in line 1 is still open; a value with any of `,[]{}` in it must be quoted",
        ),
        (
            "a: [b, c\n",
            (1, 4),
            "the `[` that opens here is never closed",
            "put `]` after its last value",
        ),
        (
            "s:\n  - id: x\n      when: y\n",
            (3, 11),
            "a value with `: ` in it must be quoted",
            f"{QUOTE}; if this is a separate key, {INDENT}",
        ),
        (
            "s:\n  - id: x\n   when: y\n",
            (3, 4),
            f"{UNMATCHED} (column 4) {ABOVE}",
            f"start the line in column 5 or 1; {INDENT}",
        ),
        ("  a: b\nc: d\n", (2, 1), f"{UNMATCHED} (column 1) {ABOVE}", f"start the line in column 3; {INDENT}"),
    ],
)
def test_a_yaml_mistake_is_explained(text: str, place: tuple[int, int], message: str, hint: str) -> None:
    source = Source.of(text)
    problems = Problems()
    assert parse_yaml(source, 0, len(source.text), problems) is None
    assert [(problem.line, problem.column) for problem in problems] == [place]
    assert [(problem.message, problem.hint) for problem in problems] == [(message, hint)]
