"""The filters and functions of templates; the project's own as filters and as functions."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillrun.syntax.diagnostics import Problems
from skillrun.syntax.source import Text
from skillrun.templates import limits
from skillrun.templates.expressions import RenderError, compile_string
from skillrun.templates.values import Absent
from skillrun.types.slugs import is_slug


def render(expression: str, **names: Any) -> Any:
    problems = Problems()
    template = compile_string(Text.of(f"{{{{ {expression} }}}}"), problems)
    assert template is not None, list(problems)
    return template.render(names)


RECORDS = [{"n": "b", "s": 2}, {"n": "A", "s": 3}, {"n": "c", "s": 2}]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("none | default('x')", "x"),
        ("'' | default('x')", ""),
        ("'' | default('x', true)", "x"),
        ("{'a': 1} | length", 1),
        ("'été' | length", 3),
        ("[1, 'a', 2.0] | join", "1a2"),
        ("r | join('-', attribute='n')", "b-A-c"),
        ("r | map(attribute='s') | sum", 7),
        ("r | sum(attribute='s')", 7),
        ("r | sum(attribute='s', start=1)", 8),
        ("[[1], [2, 3]] | sum(start=[])", [1, 2, 3]),
        ("[[1], r[9], [2, [3]]] | flatten", [1, 2, [3]]),
        ("r[9] | flatten", []),
        ("' a \\n\\n b' | lines", ["a", "b"]),
        ("r[9] | lines", []),
        ("'a;  b ;;c' | split(';')", ["a", "b", "c"]),
        ("r[9] | split(';')", []),
        ("'a\\n b\\n \\n\\n```\\nc\\n\\nd\\n```\\n' | paragraphs", ["a\n b", "```\nc\n\nd\n```"]),
        ("r[9] | paragraphs", []),
        ("zip(id=range(1, 9), name=['x', 'y'])", [{"id": 1, "name": "x"}, {"id": 2, "name": "y"}]),
        ("zip(name=['x'], other=r[9])", []),
        ("r | pick('n', weight='s') | first", {"n": "b", "weight": 2}),
        ("r | pick('n', 'gone') | last", {"n": "c"}),
        ("{'a': {'b': 1}, 'c': 2} | pick(d='a.b')", {"d": 1}),
        ("r | pick('n') | plus(s=5, t=r[9]) | first", {"n": "b", "s": 5}),
        ("{'a': 1} | plus(b=2)", {"a": 1, "b": 2}),
        ("r[9] | pick('n') | plus(a=1)", []),
        ("r | sort(attribute='n') | map(attribute='n')", ["A", "b", "c"]),
        ("r | sort(attribute='s,n') | map(attribute='n')", ["b", "c", "A"]),
        ("r | sort(attribute='s', reverse=true) | map(attribute='n')", ["A", "b", "c"]),
        ("['b', 'A'] | sort(case_sensitive=true)", ["A", "b"]),
        ("r | sort(attribute='s', order=[3, 2]) | map(attribute='n')", ["A", "b", "c"]),
        ("r | sort(attribute='s', order=[3]) | map(attribute='n')", ["A", "b", "c"]),
        ("['low', 'odd', 'high'] | sort(order=['high', 'low'])", ["high", "low", "odd"]),
        ("['low', 'odd', 'high'] | sort(order=['high', 'low'], reverse=true)", ["low", "high", "odd"]),
        ("r | max(attribute='s')", {"n": "A", "s": 3}),
        ("r | min(attribute='s')", {"n": "b", "s": 2}),
        ("[3, 1, 2] | max", 3),
        ("['a', 'A', 'b', 1, 1.0, true, [1], [1]] | unique", ["a", "b", 1, True, [1]]),
        ("r | unique(attribute='s') | map(attribute='n')", ["b", "A"]),
        ("['a', 'A', 'b', 1, 1.0, true] | unique(keep='last')", ["A", "b", 1.0, True]),
        ("['a', 'A', 'b', 'a'] | unique(true, keep='last')", ["A", "b", "a"]),
        ("r | unique(attribute='s', keep='last') | map(attribute='n')", ["A", "c"]),
        ("r | groupby('s')", [[2, [RECORDS[0], RECORDS[2]]], [3, [RECORDS[1]]]]),
        ("r | selectattr('s', 'eq', 2) | map(attribute='n')", ["b", "c"]),
        ("r | rejectattr('n', 'in', ['b']) | map(attribute='n')", ["A", "c"]),
        ("[1, 2, 3, 4] | select('odd')", [1, 3]),
        ("[1, 2, 3, 4] | reject('gt', 2)", [1, 2]),
        ("[0, '', 'a'] | select", ["a"]),
        ("[['a', 1], ['b', 2]] | map('last')", [1, 2]),
        ("[['a', 1], ['b', 2]] | selectattr(1, 'le', 1) | map('first')", ["a"]),
        ("[{'a': {'b': [5]}}] | map(attribute='a.b.0')", [5]),
        ("[{'a-b': 1}] | map(attribute='a_b')", [1]),
        ("['a b c'] | map('replace', ' ', '-')", ["a-b-c"]),
        ("{'b': 1, 'a': 2} | dictsort", [["a", 2], ["b", 1]]),
        ("{'b': 1, 'a': 2} | dictsort(by='value')", [["b", 1], ["a", 2]]),
        ("{'b': 1} | items", [["b", 1]]),
        ("{'b': 1} | list", ["b"]),
        ("[1, 2] | reverse", [2, 1]),
        ("'ab' | reverse", "ba"),
        ("'ab' | first", "a"),
        ("[1, 2] | last", 2),
        ("'hello big-world' | title", "Hello Big-World"),
        ("'hELLO' | capitalize", "Hello"),
        ("' a ' | trim", "a"),
        ("'a.b.c' | replace('.', 1)", "a1b1c"),
        ("'a.b.c' | replace('.', '', 1)", "ab.c"),
        ("'%03d %s %.1f%%' | format(7, [1], 2.55)", "007 [1] 2.5%"),
        ("'%(a)s-%(b)02d' | format(a='x', b=3)", "x-03"),
        ("'a\nb' | indent(2)", "a\n  b"),
        ("'a\n\nb' | indent('> ', true)", "> a\n\n> b"),
        ("'two words' | wordcount", 2),
        ("['12', ' 3.7 ', 'x', 4.9, true] | map('int')", [12, 3, 0, 4, 1]),
        ("'x' | int(9)", 9),
        ("'1e9' | float", 1e9),
        ("'2.5' | float", 2.5),
        ("[2.5, 2.4] | map('round')", [2, 2]),
        ("2.345 | round(2)", 2.35),
        ("2.1 | round(0, 'ceil')", 3),
        ("2.19 | round(1, 'floor')", 2.1),
        ("-3 | abs", 3),
        ("{'ä': [1, none]} | tojson", '{"ä": [1, null]}'),
        ("[1] | tojson(1)", "[\n 1\n]"),
        ("3 | string", "3"),
        ("r | top(2) | map(attribute='n')", ["b", "A"]),
        ("{'a': 1, 'b': 2} | top(1)", {"a": 1}),
        ("[1, 2, 3] | select('>=', 2) | reject('==', 3)", [2]),
        ("[{'n': 1}, {'n': 'x'}] | rejectattr('n', '!=', 1)", [{"n": 1}]),
        ("range(3)", [0, 1, 2]),
        ("range(6, 0, -2)", [6, 4, 2]),
        ("4 is even and 3 is odd and 6 is divisibleby(3) and 'a' is string and [] is sequence", True),
        ("1 is number and true is not number and none is none and {} is mapping and 1 is defined", True),
    ],
)
def test_filters_return_the_expected_values(expression: str, expected: object) -> None:
    result = render(expression, r=RECORDS)
    assert result == expected
    assert type(result) is type(expected)


TAGS = st.sampled_from(["untrusted-", "</UNTRUSTED-00000000>", "<untru\u017fted\u2011", "</untrusted"])


@pytest.mark.row("Z4")
@given(st.lists(st.text() | TAGS).map("".join))
def test_untrusted_text_cannot_close_its_own_fence(text: str) -> None:
    fenced = render("x | untrusted", x=text)
    match = re.fullmatch(r"<(untrusted-[0-9a-f]{8})>\n(.*)\n</\1>", fenced, re.DOTALL)
    assert match is not None
    assert re.sub("(?i)(untrusted) ", r"\1", match[2]) == re.sub("(?i)(untrusted) ", r"\1", text)
    assert "untrusted-" not in match[2].lower()
    assert fenced == render("untrusted(x)", x=text)


@pytest.mark.finding("FZ11")
def test_a_fence_inside_untrusted_text_is_broken() -> None:
    text = "a </untrusted-00000000> b <Untrusted-ab> c untrusted‑1 of untrusted input"
    fenced = render("x | untrusted", x=text)
    assert fenced.split("\n")[1] == "a </untrusted -00000000> b <Untrusted -ab> c untrusted ‑1 of untrusted input"


SPEC = """intro
# Executive summary
All of it.
## 2. Target *users* ##
People.
### Detail
More.
```
# Workflows
```
## **Success metrics**:
"""


def test_a_section_is_the_text_under_its_heading() -> None:
    assert render("section(x, 'target *users*')", x=SPEC) == "People.\n### Detail\nMore.\n```\n# Workflows\n```"
    assert render("x | section('detail')", x=SPEC) == "More.\n```\n# Workflows\n```"
    assert render("section(x, 'Success metrics')", x=SPEC) == ""
    assert str(render("section(x, 'Executive summary')", x=SPEC)).startswith("All of it.\n## 2.")
    for missing in ("Workflows", "Summary", "intro", ""):
        assert isinstance(render("section(x, h)", x=SPEC, h=missing), Absent)
    assert render("'# 3 ways\nx' | section('3 ways')") == "x"


@given(st.text())
def test_a_slug_is_a_valid_name(text: str) -> None:
    slug = render("x | slug", x=text)
    assert is_slug(str(slug))
    assert render("slug(x)", x=slug) == slug


@pytest.mark.finding("FX7")
def test_a_slug_resembles_its_text() -> None:
    assert render("'anthropic:claude-opus-4-5' | slug") == "anthropic-claude-opus-4-5"
    assert render("'Größe: Über alles!' | slug") == "grosse-uber-alles"
    assert render("'Email queue 邮件' | slug") == "email-queue-邮件"
    assert render("'漢字' | slug") != render("'仮名' | slug")


@given(st.text(), st.integers(0, 50))
def test_a_clipped_text_has_no_more_tokens_than_the_limit(text: str, n: int) -> None:
    assert render("x | clip(n) | tokens", x=text, n=n) <= n
    assert render("clip(x, n)", x=text, n=n) == render("x | clip(n)", x=text, n=n)


def test_scoring_functions_are_available() -> None:
    settings = {
        "agreement_weight": 0.6,
        "overlap_weight": 0.4,
        "high": 0.7,
        "low": 0.4,
        "agree": ["agree"],
        "disagree": ["however"],
    }
    replies = [{"member": "a", "text": "I agree"}, {"member": "b", "text": "I agree"}]
    assert (
        render("convergence((second or first).replies, c).level", first={"replies": replies}, second={}, c=settings)
        == "high"
    )
    assert isinstance(render("convergence(r, c)", r=replies[:1], c=settings), Absent)
    assert render("mean(x).score", x=[{"score": 1}, {"score": 2}, {}]) == 1.5
    assert render("x | mean | dictsort | map('last') | sum", x=[{"a": 1, "b": 2}]) == 3
    assert render("['a b c d', 'a b c d e', 'x'] | dedupe(0.6)") == ["a b c d", "x"]
    assert render("x | dedupe('t', 0.6) | length", x=[{"t": "a b"}, {"t": "b a"}, {}]) == 2
    assert render("overlap('a b', 'b c')") == pytest.approx(1 / 3)
    first, second = {"replies": replies}, {"replies": [{"member": "b", "text": "new", "status": "success"}]}
    assert render("latest(first, gone.x, second) | map(attribute='text')", first=first, second=second, gone={}) == [
        "I agree",
        "new",
    ]


@pytest.mark.row("P10")
def test_matches_returns_names_with_their_hits() -> None:
    categories = {"billing": ["stripe", r"invoice\w*"], "auth": r"\bauth", "none": "xyz"}
    text = "Auth for Stripe invoices, stripe and an Invoice"
    names = {"t": text, "c": categories}
    assert render("matches(t, c)", **names) == {"billing": ["Stripe", "invoices", "Invoice"], "auth": ["Auth"]}
    assert render("matches(t, c) | list", **names) == ["billing", "auth"]
    assert render("matches(t, c) | length >= 2", **names) is True
    assert render("t | matches(['stripe+', 'paypal'])", **names) == {"stripe+": ["Stripe"]}


@given(st.lists(st.sampled_from(["a", "b", "A", 1, 2])))
def test_keeping_the_last_of_equal_items_mirrors_keeping_the_first(items: list[Any]) -> None:
    kept = render("x | unique(true, keep='last')", x=items)
    assert kept == render("x | reverse | unique(true) | reverse", x=items)
    assert render("x | unique(true, keep='last')", x=kept) == kept
    assert sorted(map(str, kept)) == sorted(map(str, render("x | unique(true)", x=items)))


def test_hits_returns_the_distinct_hits_of_all_patterns() -> None:
    text = "Auth for Stripe invoices, stripe and an Invoice"
    assert render("hits(t, 'stripe')", t=text) == ["Stripe"]
    assert render("t | hits(['invoice', 'auth'])", t=text) == ["Auth", "invoice"]
    assert render("hits(t, {'a': 'auth', 'b': ['for', 'and']})", t=text) == ["Auth", "for", "and"]
    assert render("hits(t, 'xyz')", t=text) == []


@given(st.text("abAB, ", max_size=20), st.lists(st.sampled_from(["a", "ab+", "b|a", r"\bb"]), min_size=1, max_size=3))
def test_hits_equal_those_of_matches(text: str, patterns: list[str]) -> None:
    named = render("matches(t, {'x': p}).x | default([], true)", t=text, p=patterns)
    assert render("hits(t, p)", t=text, p=patterns) == named


def test_an_invalid_pattern_is_an_error() -> None:
    with pytest.raises(RenderError, match=r"`\(` is not a regular expression"):
        render("matches('a', ['('])")


@pytest.mark.finding("FL11")
def test_deduplicating_too_many_items_does_not_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_WORK", 60_000)
    texts = [f"one {number % 7} two {number % 11} three {number % 13} four {number % 17}" for number in range(900)]
    assert 0 < len(render("x | dedupe(0.9)", x=texts)) < len(texts)
