"""Ids, links, paths, numbers and words are found in texts, each with its place."""

import re
import time
from collections.abc import Callable
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillrun.syntax.diagnostics import Problems
from skillrun.syntax.source import Text
from skillrun.templates.document_search import hits_in
from skillrun.templates.expressions import RenderError, compile_string
from skillrun.templates.ids import ids_in, links_between
from skillrun.templates.limits import TemplateError
from skillrun.templates.numbers import numbers_in
from skillrun.templates.paths import paths_in

pytestmark = pytest.mark.row("Q3")
KINDS = {"criterion": r"AC-\d+", "case": r"T-\d+"}
SPEC = """# Specification

1. AC-1: It opens, as D-1 says.
2. AC-2: It closes.
   - in a second, AC-9 or not
3. **AC-3** It stays.

See AC-2.
"""
TESTS = """# Tests
| id | serves | then |
| --- | --- | --- |
| T-1 | AC-1 to AC-2 | it is open |
| T-2 | nothing | it is |

## Covered
- AC-1: covered
"""


SEARCHES: Final[dict[str, Callable[[Any], list[dict[str, Any]]]]] = {
    "id": lambda texts: ids_in(texts, KINDS),
    "path": lambda texts: paths_in(texts, "new"),
    "number": numbers_in,
}


def render(expression: str, **names: Any) -> Any:
    template = compile_string(Text.of(f"{{{{ {expression} }}}}"), Problems())
    assert template is not None
    return template.render(names)


def is_bounded(expression: str, **names: Any) -> bool:
    """Whether it returns a number or exceeds a limit."""
    try:
        return isinstance(render(expression, **names), int)
    except RenderError as error:
        return "work limit" in str(error) or "too long" in str(error)


def locate(places: list[dict[str, Any]]) -> list[tuple[str, int]]:
    return [(place["document"], place["line"]) for place in places]


def defined_ids(text: str, pattern: str = r"AC-\d+") -> list[str]:
    return [item["id"] for item in ids_in(text, pattern) if item["defined"]]


def cited_ids(text: str, pattern: Any = r"AC-\d+", **options: Any) -> list[str]:
    return [item["id"] for item in ids_in(text, pattern, **options) if item["cited"]]


# ids


def test_an_id_has_locations_by_document_and_dangles_when_it_is_never_defined() -> None:
    found = {item["id"]: item for item in ids_in({"S": SPEC, "T": TESTS}, KINDS, {"criterion": "S"})}
    assert {name: locate(record["defined"]) for name, record in found.items()} == {
        "AC-1": [("S", 3)], "AC-2": [("S", 4)], "AC-9": [], "AC-3": [("S", 6)], "T-1": [("T", 4)], "T-2": [("T", 5)],
    }  # fmt: skip
    assert locate(found["AC-1"]["cited"]) == [("T", 4), ("T", 8)]
    assert locate(found["AC-2"]["cited"]) == [("S", 8), ("T", 4)]
    assert found["AC-9"]["cited"] == [
        {"document": "S", "line": 5, "text": "- in a second, AC-9 or not", "within": ["AC-2"]}
    ]
    assert {item["kind"] for item in found.values()} == {"criterion", "case"}
    dangling = "ids_in({'S': s}, k) | rejectattr('defined') | map(attribute='id')"
    assert render(dangling, s=SPEC, k=KINDS) == ["AC-9"]


@pytest.mark.parametrize(
    "line",
    [
        "# AC-1", "### 2.1 AC-1: It opens", "- AC-1 It opens", "  * [ ] AC-1 It opens", "3) [AC-1] opens", "> - AC-1",
        "| AC-1 | opens |", "|`AC-1`| opens |", "**AC-1** opens", "__AC-1: it__ opens", "AC-1: opens", "AC-1 | opens",
        "id: AC-1", "- id: AC-1", '  "id": "AC-1",', "- **Id:** AC-1", "1. **AC-1**: opens",
        "- AC-1 – opens after AC-2",
    ],
)  # fmt: skip
def test_an_id_at_the_start_of_an_item_is_a_definition(line: str) -> None:
    assert defined_ids(f"text\n\n{line}\n") == ["AC-1"]


@pytest.mark.parametrize(
    "line",
    [
        "as AC-1 says", "- see AC-1", "| T-1 | AC-1 |", "AC-1 is met", "the **AC-1** opens", "## Serves AC-1",
        "- AC-1 and AC-2", "- AC-1, AC-2: manually", "| AC-1/AC-2 | both |", "- AC-1 to AC-3", "- AC-1–3", "# AC-1/2",
        "AC-1. Then", "```\n# AC-1: opens\n```", "~~~\n- AC-1\n~~~", "AC-1://x",
    ],
)  # fmt: skip
def test_an_id_in_prose_enumerations_or_code_is_a_citation(line: str) -> None:
    assert defined_ids(line) == []
    assert "AC-1" in cited_ids(line)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("AC-1 to AC-4", "1 2 3 4"), ("AC-1–4", "1 2 3 4"), ("AC-1 … AC-3.", "1 2 3"), ("AC-1-AC-3", "1 2 3"),
        ("AC-1/2/3", "1 2 3"), ("`AC-1` to `AC-3`", "1 3 2"), ("AC-1, 3, 5", "1 3 5"), ("AC-1, 3 rows", "1"),
        ("AC-1–2, 5–6, 9", "1 2 5 6 9"), ("AC-3 to AC-1", "3 1"), ("AC-1 to 3.5", "1"), ("AC-1 to T-3", "1"),
        ("AC-1-2", ""), ("AC-12", "12"), ("X-AC-1", ""), ("AC-1b", ""), ("AC-1.2", ""), ("AC-1.", "1"), ("ac-1", ""),
        ("AC-1 bis AC-3", "1 3"), ("AC-08 to AC-10", "08 09 10"), ("AC-1 to AC-9999", "1 9999"), ("", ""),
    ],
)  # fmt: skip
def test_each_id_of_a_range_is_cited_but_not_part_of_a_longer_word(text: str, expected: str) -> None:
    assert set(cited_ids(f"as {text}")) == {f"AC-{number}" for number in expected.split()}


def test_range_words_are_configurable_and_ids_without_a_hyphen_have_ranges() -> None:
    assert cited_ids("as AC-1 bis AC-3", to=["bis", "à"]) == ["AC-1", "AC-2", "AC-3"]
    assert cited_ids("T1-4, R1–R2", pattern=[r"T\d+", r"R\d+"]) == ["T1", "T2", "T3", "T4", "R1", "R2"]


def test_records_are_searched_like_documents_and_absent_texts_are_ignored() -> None:
    decisions = [{"id": "D-1", "decision": "as AC-1\r\nsays", "confidence": None}, {"id": "D-2", "text": "**D-2** x"}]
    found = render("ids_in({'S': s, 'D': d, 'N': gone.x}, ['D-\\\\d+', 'AC-\\\\d+'])", s=SPEC, d=decisions, gone={})
    assert {item["id"]: locate(item["defined"]) for item in found if item["kind"].startswith("D")} == {
        "D-1": [("D", 1)], "D-2": [("D", 5)]
    }  # fmt: skip
    assert [locate(item["cited"]) for item in found if item["id"] == "AC-1"] == [[("D", 2)]]
    assert ids_in({"a": "", "b": []}, KINDS) == ids_in([], KINDS) == ids_in("x", {}) == []


def test_an_item_ends_where_the_next_begins() -> None:
    text = "# AC-1\nx T-1\n## more\n- AC-2: x\n  x T-2\n\n  x T-3\nx T-4\n\nx T-5\n"
    text += "# end\nx T-6\nAC-3: a\n\nx T-7\nAC-4: b T-8"
    within = {item["id"]: item["cited"][0]["within"] for item in ids_in(text, KINDS) if item["kind"] == "case"}
    assert within == {
        "T-1": ["AC-1"], "T-2": ["AC-1", "AC-2"], "T-3": ["AC-1", "AC-2"], "T-4": ["AC-1", "AC-2"], "T-5": ["AC-1"],
        "T-6": [], "T-7": ["AC-3"], "T-8": ["AC-4"],
    }  # fmt: skip


def test_links_are_found_in_both_directions() -> None:
    found = ids_in({"S": SPEC, "T": TESTS}, KINDS, {"criterion": "S"})
    forward = {item["id"]: item["links"] for item in links_between(found, "S", "T")}
    assert {name: [link.get("id") for link in links] for name, links in forward.items()} == {
        "AC-1": ["T-1", None], "AC-2": ["T-1"], "AC-3": []
    }  # fmt: skip
    backward = {item["id"]: [link["id"] for link in item["links"]] for item in links_between(found, "T", "S")}
    assert backward == {"T-1": ["AC-1", "AC-2"], "T-2": []}
    assert render("f | links_between('T', 'S') | rejectattr('links') | map(attribute='line')", f=found) == [5]
    same = ids_in({"K": "# T-1\nneeds T-2\n# T-2\nT-2 needs nothing"}, KINDS)
    assert {item["id"]: [link["id"] for link in item["links"]] for item in links_between(same, "K", "K")} == {
        "T-1": ["T-2"], "T-2": []
    }  # fmt: skip
    assert links_between(found, "S", "nowhere")[0]["links"] == links_between([], "S", "T") == []


@pytest.mark.parametrize("expression", ["links_between(['a'], 'S', 'T')", "ids_in('a', 'a(')", "ids_in('a', 'a', 3)"])
def test_invalid_arguments_are_a_render_error(expression: str) -> None:
    with pytest.raises(RenderError):
        render(expression)


# paths


@pytest.mark.finding("FT5")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("in `src/app.py`, docs/ and src/b.rs.", "src/app.py docs/ src/b.rs"),
        ("./a/b.md:12 a/c.py::test_it a/d.c#L3 (e/f.h)", "a/b.md a/c.py a/d.c e/f.h"),
        ("and/or 1/2 11/22/2026 he/she n/a AC-1/T-2", ""),
        ("https://x.org/a.md ftp://h/b.c www.x.org/c.md github.com/a/b.md a://b/c.d", ""),
        ("`src/app` `bin/run` `application/json` `-t/--table` `/users/1` ~/x.md /etc/passwd", "src/app bin/run"),
        ("`try/except` `if/else` and `tries/except`", "tries/except"),
        (".github/workflows ../up.md `docs/*.rst` **src/x.py**", ".github/workflows ../up.md docs/*.rst src/x.py"),
        ("runs/<name>/x.md a/{b}/c.md a/$X/d.md …/e.md .../f.md", ""),
        ("```\npytest tests/test_a.py\n```", "tests/test_a.py"),
        ("`NULL`/`''` no/ yes", "no/"),
        ("setup.py, `README.md`, pyproject.toml and `Makefile`", "setup.py README.md pyproject.toml Makefile"),
        ("`app.js` `.gitignore` `.csv` `json.loads()` `os.path` Node.js e.g. v1.2 x.y", "app.js .gitignore"),
        ("`response.json()` a.b.com `*.py` the Makefile", ""),
        ("`src/app.py`, later `app.py`", "src/app.py"),
    ],
)
def test_paths_are_words_that_look_like_files_and_folders(text: str, expected: str) -> None:
    assert [item["path"] for item in paths_in(text)] == expected.split()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("`a/x.py` (new), `b/y.py`", "a/x.py"), ("new `a/x.py`, new `b/y.py`", "a/x.py b/y.py"),
        ("`a/x.py`, `b/y.py`: new.", "a/x.py b/y.py"), ("new: `a/x.py` and `b/y.py`", "a/x.py b/y.py"),
        ("in `a/x.py` over a new module `b/y.py`", "b/y.py"), ("`a/x.py` is there. A new idea", ""),
        ("| `a/x.py` | new |", "a/x.py"), ("`a/new/x.py` `renewed/x.py`", ""),
        ("`a/x.py` (command, new), `b/y.py`", "a/x.py"),
        ("New files:\n\n- `a/x.py`\n- `b/y.py`\n\nand c/z.py", "a/x.py b/y.py"), ("## New\n\n`a/x.py`", ""),
        ("`a/x.py`\n\nnew `a/x.py`", "a/x.py"),
        ("`a/x.py`, `b/y.py` (new)", "b/y.py"), ("new `b/y.py` for `a/x.py`", "b/y.py"),
        ("`a/x.py`: new `b/y.py`", "b/y.py"), ("a new check in `a/x.py`", ""), ("a new `f()` of the `a/x.py`", ""),
        ("`a/x.py` with a new class, and `b/y.py` (new)", "b/y.py"), ("`a/x.py` gets a new function", ""),
        ("`b/y.py` is new and used in `a/x.py`", "b/y.py"), ("`a/x.py` and `b/y.py` are new", "a/x.py b/y.py"),
        ("`setup.py` and new `run.py`", "run.py"), ("a new function. In `a/x.py`", ""),
    ],
)  # fmt: skip
def test_a_path_is_new_when_the_words_next_to_it_match(line: str, expected: str) -> None:
    assert [item["path"] for item in paths_in(line, r"\bnew\b") if item["new"]] == expected.split()
    assert not any(item["new"] for item in paths_in(line))


@pytest.mark.finding("FR24")
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("edit `a/x.py` so that new items stay", ""), ("`a/x.py`: add a limit", ""), ("in a/x.py, add tests", ""),
        ("`a/x.py`: add a limit, as in `b/y.py`", ""), ("open `a/x.py` and add a check", ""),
        ("a/x.py (it adds rows)", ""),
        ("a/x.py - add eviction", ""), ("`a/x.py` because added rows vanish, not `b/y.py`", ""),
        ("`a/x.py`: new module", "a/x.py"), ("a/x.py — new", "a/x.py"), ("`a/x.py` (holds rows, new)", "a/x.py"),
        ("`a/x.py`, created by T-1", "a/x.py"), ("`a/x.py` will be created", "a/x.py"), ("add `a/x.py`", "a/x.py"),
        ("**a/x.py** (new class)", "a/x.py"),
    ],
)  # fmt: skip
def test_something_added_to_a_file_does_not_make_the_file_new(line: str, expected: str) -> None:
    marks = [r"\bnew\b", r"\bcreate[sd]?\b", r"\badd(s|ed)?\b"]
    assert [item["path"] for item in paths_in(line, marks) if item["new"]] == expected.split()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("`a/x.py:3`", [(3, 3)]), ("a/x.py:3-7, a/x.py:9–12", [(3, 7), (9, 12)]), ("a/x.py#L3-L7", [(3, 7)]),
        ("a/x.py:3:5", [(3, 3)]), ("a/x.py:7-3", [(3, 7)]), ("a/x.py:3 and a/x.py:3", [(3, 3)]), ("a/x.py", []),
        ("a/x.py, line 3", [(3, 3)]), ("`a/x.py` 3–7", [(3, 7)]), ("a/x.py (lines 3-7)", [(3, 7)]),
        ("a/x.py has 3 lines", []), ("a/x.py 3 times", []),
        ("a/x.py::test_it", []), ("a/x.py:0", []), ("a/x.py:12345678", []), ("a/x.py#title", []),
    ],
)  # fmt: skip
def test_line_numbers_after_a_path_are_parsed(line: str, expected: list[tuple[int, int]]) -> None:
    (path,) = paths_in(line)
    assert path["path"] == "a/x.py"
    assert [(item["first"], item["last"]) for item in path["lines"]] == expected


# numbers


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("at most 10MB, 10 MB or 10\u00a0MB", ["10 MB"]),
        ("1,000,000 rows, 1_000 users, 1\u202f000 b", ["1000000 rows", "1000 users", "1000 b"]),
        ("a 10-second wait of 0.50 s, 5% or 5 %", ["10 second", "0.5 s", "5 %"]),
        ("500–900 words, 10-20 KB/s, -5 °C", ["500", "900 words", "10", "20 KB/s", "-5 °C"]),
        ("AC-2, T-1, utf-8, x86, v2, sha256, 3.23.1, 3.x, Python 3.10–3.15, 0x1f, cli.py:12, #12, U+1", []),
        ("on 2026-11-22, 11/22/2026, 22.11.2026 at 12:30", []),
        ("1. first\n2) second\n## 3. Third\n### 4.2 Fourth\n- [ ] 5. fifth: 6 of", ["6 of"]),
        ("`'1'` and `1`, docs/v2/3, x'61ff', a%3f, x[3]", ["1"]),
        ("```\n7 seven\n```\n8", ["8"]),
        (f"{'9' * 40} 1e9999", []),
    ],
)
def test_numbers_are_amounts_in_a_normalized_form(text: str, expected: list[str]) -> None:
    assert [item["number"] for item in numbers_in(text)] == expected


def test_numbers_missing_from_another_text_are_found() -> None:
    missing = "numbers_in(a) | rejectattr('value', 'in', numbers_in(b, true) | map(attribute='value'))"
    assert render(
        f"{missing} | map(attribute='number')", a="at most 1,000 rows, 10 MB, 3 s", b="```\nLIMIT = 1000\n```\n10MB"
    ) == ["3 s"]


# words


def test_hits_have_locations() -> None:
    found = hits_in({"A": "one TODO\r\ntodo TBD\n", "B": "x"}, {"open": [r"\bTODO\b", "TBD"], "x": "^x$"})
    assert found == [
        {"kind": "open", "hit": "TODO", "document": "A", "line": 1, "text": "one TODO"},
        {"kind": "open", "hit": "todo", "document": "A", "line": 2, "text": "todo TBD"},
        {"kind": "open", "hit": "TBD", "document": "A", "line": 2, "text": "todo TBD"},
        {"kind": "x", "hit": "x", "document": "B", "line": 1, "text": "x"},
    ]
    assert render("text | hits_in(['T.'])", text="Tx") == [
        {"kind": "T.", "hit": "Tx", "document": "", "line": 1, "text": "Tx"}
    ]


# properties

PARTS = st.sampled_from(
    ["AC-1", "AC-2", "T-7", "AC-1 to AC-3", "`a/b.py`", "new", "10 MB", "# ", "- ", "| ", "**", "```", "1. ", "id: ",
     "\n", "\n\n", "\r\n", "\r", "  ", " ", ": ", ", ", "/", "–", "\u2028", "\x00", "é", "\ud800", "x" * 400, "(", ")"]
)  # fmt: skip
TEXTS = st.lists(PARTS | st.text(max_size=5), max_size=30).map("".join)


@given(TEXTS, TEXTS)
def test_each_location_contains_its_words(first: str, second: str) -> None:
    texts = {"A": first, "B": second}
    lines = {title: re.split(r"\r\n?|\n", text) for title, text in texts.items()}
    matches = [(hit["hit"], hit) for hit in hits_in(texts, ["AC", r"\d+"])]
    found = ids_in(texts, KINDS)
    matches += [(record["id"], place) for record in found for place in record["defined"]]
    paths, numbers = paths_in(texts, "new"), numbers_in(texts, True)
    matches += [(record["path"], place) for record in paths for place in record["cited"]]
    places = [*(place for record in (*found, *numbers) for place in record["cited"]), *(place for _, place in matches)]
    for place in places:
        assert place["text"] in lines[place["document"]][place["line"] - 1]
        assert len(place["text"]) <= 300
    for words, place in matches:
        assert words in place["text"]
    assert all(record["defined"] or record["cited"] for record in found)
    assert len({record["id"] for record in found}) == len(found)
    for source, target in ("AB", "BA", "AA"):
        for record in links_between(found, source, target):
            assert all(link["document"] in (source, target) for link in record["links"])


@given(TEXTS, TEXTS)
def test_results_do_not_depend_on_other_documents_or_their_order(text: str, other_text: str) -> None:
    def locate_by(records: list[dict[str, Any]], key: str) -> dict[str, Any]:
        return {
            record[key]: {name: locate(record[name]) for name in ("defined", "cited") if name in record}
            for record in records
        }

    forward, backward = {"A": text, "B": other_text}, {"B": other_text, "A": text}
    for key, find in SEARCHES.items():
        first, second = locate_by(find(forward), key), locate_by(find(backward), key)
        assert first.keys() == second.keys()
        for name, places in first.items():
            assert {kind: sorted(located) for kind, located in places.items()} == {
                kind: sorted(located) for kind, located in second[name].items()
            }
        alone = locate_by(find({"A": text}), key)
        for name, places in alone.items():
            for kind, located in places.items():
                assert located == [place for place in first[name][kind] if place[0] == "A"]


@given(TEXTS)
def test_renaming_an_id_keeps_its_locations(text: str) -> None:
    renamed = text.replace("AC-", "ZQ-")
    before, after = ids_in(text, r"AC-\d+"), ids_in(renamed, r"ZQ-\d+")
    assert [item["id"].replace("AC", "ZQ") for item in before] == [item["id"] for item in after]
    for old, new in zip(before, after, strict=True):
        assert (locate(old["defined"]), locate(old["cited"])) == (locate(new["defined"]), locate(new["cited"]))


@given(TEXTS)
def test_line_endings_make_no_difference(text: str) -> None:
    plain = re.sub(r"\r\n?", "\n", text)
    for find in SEARCHES.values():
        assert find(text) == find(plain) == find(plain.replace("\n", "\r\n"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "- AC-1: a `src/a.py` of 10 MB\n" * 10_000, "x" * 1_000_000, "a/" * 500_000, "1," * 500_000, "1.1" * 300_000,
        "\n" * 1_000_000, "| " * 500_000, "AC-1 to " * 3_000, "-" * 1_000_000, "(" * 1_000_000, "`" * 1_000_000,
        " " * 1_000_000,
        "# " * 500_000, "> " * 500_000, "new " * 10_000 + "a/b.py " * 1_000,
    ],
)  # fmt: skip
def test_a_long_text_is_searched_or_exceeds_the_work_limit(text: str) -> None:
    for expression in ("ids_in(t, k)", "paths_in(t, 'new')", "numbers_in(t)", "hits_in(t, 'zz')"):
        assert is_bounded(f"{expression} | length", t=text, k=KINDS), expression


def test_a_whole_megabyte_is_searched() -> None:
    text = "word " * 199_990 + "\n- AC-7: `src/last.py`, 99 MB\n"
    found = render("[ids_in(t, k) | length, paths_in(t) | length, (numbers_in(t) | first).number]", t=text, k=KINDS)
    assert found == [1, 1, "99 MB"]
    with pytest.raises(TemplateError):
        ids_in("a", "(")


def test_words_between_a_mark_and_a_path_are_read_once() -> None:
    (found,) = paths_in("a new " + "word " * 100 + "`a/x.py`", "new")
    assert found["new"]
    (found,) = paths_in("a new " + "word " * 100 + "in `a/x.py`", "new")
    assert not found["new"]


def test_many_line_numbers_of_one_path_take_linear_time() -> None:
    mentions = "\n".join(f"a/b.py:{number}" for number in range(1, 16_001))
    started = time.process_time()
    assert is_bounded("paths_in(t) | length", t=mentions)
    assert time.process_time() - started < 2


def test_matches_converts_a_value_to_text_once() -> None:
    replies = [{"text": "word " * 20, "number": number} for number in range(2_000)]
    kinds = {f"kind-{number}": [f"zz{number}"] for number in range(40)}
    assert render("matches(t, k) | length", t=replies, k=kinds) == 0
