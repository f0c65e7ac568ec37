"""A mode is laid over its own file, and a stronger file over both; keys of before are read at their new places."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from skillrun.library.configuration import overlay, resolve_features
from skillrun.library.modes import merge_by_mode, mode_dependent_keys
from skillrun.library.renamed_keys import apply_renames, read_renamed_keys
from skillrun.syntax.diagnostics import Problems
from skillrun.syntax.source import to_plain
from tests.unit.library.test_configuration import layer

SHIPPED = """
modes:
  short: {description: an afternoon, features: []}
  long: {features: [guided], hours: 10, bag: {most: 12}}
hours: 4
name: tour
judged: true
bag: {least: 1, most: 3}
teams: {calm: [a], quick: [b]}
features: {guided: {enabled: true}, warm: {enabled: true}, sure: {enabled: true, modes: [short]}}
"""


def by_mode(*texts: str) -> tuple[dict[str, Any], dict[str, dict[str, Any]], list[str]]:
    problems = Problems()
    data, modes = merge_by_mode([layer(text) for text in (*texts, SHIPPED)], problems)
    return data, modes, [f"{one.severity} {one.line} {one.message}; {one.hint}" for one in problems]


def test_a_mode_says_what_is_special_about_it() -> None:
    data, modes, problems = by_mode()
    assert problems == []
    assert (data["hours"], data["bag"]) == (4, {"least": 1, "most": 3})
    assert (modes["long"]["hours"], modes["long"]["bag"]) == (10, {"least": 1, "most": 12})
    assert (modes["short"]["hours"], modes["short"]["bag"]) == (4, {"least": 1, "most": 3})
    assert mode_dependent_keys(data, modes) == {"hours", "bag"}


def test_an_entry_has_all_that_any_mode_says_and_what_is_its_own() -> None:
    data, modes, _ = by_mode()
    small = {"least": 1, "most": 3}
    assert data["modes"]["short"] == {"description": "an afternoon", "features": [], "hours": 4, "bag": small}
    assert data["modes"]["long"] == {"features": ["guided"], "hours": 10, "bag": {"least": 1, "most": 12}}
    assert modes["long"]["modes"] == data["modes"]


def test_a_stronger_file_counts_over_the_modes_of_a_weaker_one() -> None:
    data, modes, problems = by_mode("hours: 5\n", "hours: 7\nmodes: {short: {hours: 6}}\n")
    assert problems == []
    assert (data["hours"], modes["long"]["hours"], modes["short"]["hours"]) == (5, 5, 5)
    _, modes, _ = by_mode("hours: 7\nmodes: {short: {hours: 6}}\n")
    assert (modes["long"]["hours"], modes["short"]["hours"]) == (7, 6)


def test_a_mode_of_ones_own_is_one_entry() -> None:
    data, modes, problems = by_mode("modes: {mine: {judged: false, teams: {mine: [c]}}}\n")
    assert problems == []
    assert modes["mine"]["judged"] is False
    assert modes["mine"]["teams"] == {"calm": ["a"], "quick": ["b"], "mine": ["c"]}
    assert (modes["mine"]["hours"], modes["long"]["judged"]) == (4, True)
    assert list(data["modes"]) == ["short", "long", "mine"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("modes: {mine: {juged: 1}}", "error 1 the shipped config has no `modes.mine.juged`; did you mean `judged`?"),
        (
            "modes: {mine: {hours: x}}",
            "error 1 `modes.mine.hours` is text; the shipped config has a whole number; ",
        ),
        (
            "modes: {long: {bag: 3}}",
            "error 1 `modes.long.bag` is a whole number; the shipped config has a mapping; ",
        ),
        ("modes: {logn: {hours: 3}}", "warning 1 the shipped config has no `modes.logn`; did you mean `long`?"),
        ("modes: {mine: 3}", "error 1 `modes.mine` is a whole number; the shipped config has a mapping; "),
        ("modes: {mine: }", "error 1 `modes.mine` has no value; "),
        ("modes: [mine]", "error 1 `modes` is a list; the shipped config has a mapping; "),
    ],
)
def test_a_mode_has_keys_of_the_config(text: str, problem: str) -> None:
    _, _, problems = by_mode(text)
    assert problems == [problem]


def test_a_feature_is_on_in_the_modes_that_it_lists_or_else_in_those_that_list_it() -> None:
    data, _, _ = by_mode()

    def on(mode: str | None) -> list[str]:
        return [name for name, one in resolve_features(data["features"], mode, data["modes"]).items() if one.on]

    assert (on("short"), on("long"), on("other"), on(None)) == (
        ["warm", "sure"],
        ["guided", "warm"],
        ["warm"],
        ["guided", "warm", "sure"],
    )
    data, _, problems = by_mode("features: {guided: {modes: [short]}, sure: {modes: []}}\n")
    assert (problems, on("short"), on("long")) == ([], ["guided", "warm", "sure"], ["warm", "sure"])


def moved(text: str, was: str) -> tuple[dict[str, Any], list[str]]:
    problems = Problems()
    new = apply_renames(layer(text), read_renamed_keys(layer(f"was: {was}"), problems), problems)
    return to_plain(new), [f"{one.severity} {one.line}:{one.column} {one.message}" for one in problems]


def test_what_stands_at_an_old_place_is_read_at_the_new_one() -> None:
    found, problems = moved("lengths:\n  long: 9\n  mine: 3\nhours: 4\n", "{modes.<mode>.hours: lengths.<mode>}")
    assert found == {"hours": 4, "modes": {"long": {"hours": 9}, "mine": {"hours": 3}}}
    assert problems == [
        "warning 2:3 `lengths.long` is now `modes.long.hours`",
        "warning 3:3 `lengths.mine` is now `modes.mine.hours`",
    ]


@pytest.mark.parametrize(
    ("text", "was", "found"),
    [
        (
            "a: {b: {x: 1, y: 2}, c: 3}",
            "{new.<q>.<p>: a.<p>.<q>}",
            {"a": {"c": 3}, "new": {"x": {"b": 1}, "y": {"b": 2}}},
        ),
        ("old: 1\nnew: 2", "{new: old}", {"new": 2}),  # the new place counts more
        ("old: 1\nnew: 2", "{new.part: old}", {"new": 2}),
        ("a: 1", "{b.<x>: a.<x>}", {"a": 1}),  # nothing is there by that path
        ("a: {b: 1}", "{c.d.e: a.b}", {"c": {"d": {"e": 1}}}),
    ],
)
def test_places_may_be_at_any_depth(text: str, was: str, found: dict[str, Any]) -> None:
    assert moved(text, was)[0] == found


@pytest.mark.parametrize("was", ["{a.<x>: b.<y>}", "{a.<x>: b}", "{a.<x>.<x>: b.<x>.<x>}", "{a: }", "[a]"])
def test_both_places_say_the_same_names(was: str) -> None:
    found, problems = moved("b: {c: 1}", was)
    assert found == {"b": {"c": 1}}
    assert [one.partition(" ")[0] for one in problems] == ["error"]


VALUES = st.recursive(
    st.integers(0, 3), lambda inner: st.dictionaries(st.sampled_from("xyz"), inner, max_size=3), max_leaves=6
)
LAYERS = st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3)


@given(LAYERS, LAYERS)
def test_what_is_laid_over_holds_and_nothing_else_changes(base: dict[str, Any], over: dict[str, Any]) -> None:
    found = overlay(base, over)
    assert overlay(found, over) == found
    assert overlay(base, {}) == base == overlay({}, base)
    assert found.keys() == base.keys() | over.keys()


SETTINGS = st.fixed_dictionaries({}, optional={"hours": st.integers(1, 9), "judged": st.booleans()})


@pytest.mark.slow
@given(SETTINGS, st.dictionaries(st.sampled_from(["short", "long", "mine"]), SETTINGS, min_size=1))
def test_a_mode_is_what_its_entry_makes_of_the_rest(own: dict[str, Any], modes: dict[str, dict[str, Any]]) -> None:
    _, found, problems = by_mode(yaml.safe_dump({**own, "modes": modes}))
    shipped = yaml.safe_load(SHIPPED)
    for name, entry in modes.items():
        expected = {**shipped, **shipped["modes"].get(name, {}), **own, **entry}
        assert {key: found[name][key] for key in ("hours", "judged")} == {
            key: expected[key] for key in ("hours", "judged")
        }
    assert problems == []
