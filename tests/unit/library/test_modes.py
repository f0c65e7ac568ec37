"""A mode overrides its own file, a stronger file overrides both, and old keys are read at their new places."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from skillrun.library.configuration import (
    apply_renames,
    merge_by_mode,
    mode_dependent_keys,
    overlay,
    read_renamed_keys,
    resolve_features,
)
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


def merge_modes(*texts: str) -> tuple[dict[str, Any], dict[str, dict[str, Any]], list[str]]:
    problems = Problems()
    data, modes = merge_by_mode([layer(text) for text in (*texts, SHIPPED)], problems)
    return data, modes, [f"{problem.severity} {problem.line} {problem.message}; {problem.hint}" for problem in problems]


def test_a_mode_overrides_single_keys_of_the_config() -> None:
    data, modes, problems = merge_modes()
    assert problems == []
    assert (data["hours"], data["bag"]) == (4, {"least": 1, "most": 3})
    assert (modes["long"]["hours"], modes["long"]["bag"]) == (10, {"least": 1, "most": 12})
    assert (modes["short"]["hours"], modes["short"]["bag"]) == (4, {"least": 1, "most": 3})
    assert mode_dependent_keys(data, modes) == {"hours", "bag"}


def test_a_mode_entry_has_every_key_that_any_mode_overrides() -> None:
    data, modes, _ = merge_modes()
    small = {"least": 1, "most": 3}
    assert data["modes"]["short"] == {"description": "an afternoon", "features": [], "hours": 4, "bag": small}
    assert data["modes"]["long"] == {"features": ["guided"], "hours": 10, "bag": {"least": 1, "most": 12}}
    assert modes["long"]["modes"] == data["modes"]


def test_a_stronger_file_overrides_the_modes_of_a_weaker_one() -> None:
    data, modes, problems = merge_modes("hours: 5\n", "hours: 7\nmodes: {short: {hours: 6}}\n")
    assert problems == []
    assert (data["hours"], modes["long"]["hours"], modes["short"]["hours"]) == (5, 5, 5)
    _, modes, _ = merge_modes("hours: 7\nmodes: {short: {hours: 6}}\n")
    assert (modes["long"]["hours"], modes["short"]["hours"]) == (7, 6)


def test_a_project_adds_a_mode_with_one_entry() -> None:
    data, modes, problems = merge_modes("modes: {mine: {judged: false, teams: {mine: [c]}}}\n")
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
def test_a_mode_only_accepts_keys_of_the_config(text: str, problem: str) -> None:
    _, _, problems = merge_modes(text)
    assert problems == [problem]


def test_a_feature_is_on_in_the_modes_it_lists_or_else_in_the_modes_that_list_it() -> None:
    data, _, _ = merge_modes()

    def enabled(mode: str | None) -> list[str]:
        return [name for name, feature in resolve_features(data["features"], mode, data["modes"]).items() if feature.on]

    assert (enabled("short"), enabled("long"), enabled("other"), enabled(None)) == (
        ["warm", "sure"],
        ["guided", "warm"],
        ["warm"],
        ["guided", "warm", "sure"],
    )
    data, _, problems = merge_modes("features: {guided: {modes: [short]}, sure: {modes: []}}\n")
    assert (problems, enabled("short"), enabled("long")) == ([], ["guided", "warm", "sure"], ["warm", "sure"])


def rename_keys(text: str, renames: str) -> tuple[dict[str, Any], list[str]]:
    problems = Problems()
    mapping = apply_renames(layer(text), read_renamed_keys(layer(f"was: {renames}"), problems), problems)
    return to_plain(mapping), [f"{item.severity} {item.line}:{item.column} {item.message}" for item in problems]


def test_a_key_at_its_old_place_is_read_at_the_new_place() -> None:
    data, problems = rename_keys("lengths:\n  long: 9\n  mine: 3\nhours: 4\n", "{modes.<mode>.hours: lengths.<mode>}")
    assert data == {"hours": 4, "modes": {"long": {"hours": 9}, "mine": {"hours": 3}}}
    assert problems == [
        "warning 2:3 `lengths.long` is now `modes.long.hours`",
        "warning 3:3 `lengths.mine` is now `modes.mine.hours`",
    ]


@pytest.mark.parametrize(
    ("text", "renames", "expected"),
    [
        (
            "a: {b: {x: 1, y: 2}, c: 3}",
            "{new.<q>.<p>: a.<p>.<q>}",
            {"a": {"c": 3}, "new": {"x": {"b": 1}, "y": {"b": 2}}},
        ),
        ("old: 1\nnew: 2", "{new: old}", {"new": 2}),  # the new place wins
        ("old: 1\nnew: 2", "{new.part: old}", {"new": 2}),
        ("a: 1", "{b.<x>: a.<x>}", {"a": 1}),  # the path does not exist
        ("a: {b: 1}", "{c.d.e: a.b}", {"c": {"d": {"e": 1}}}),
    ],
)
def test_keys_can_move_between_any_depths(text: str, renames: str, expected: dict[str, Any]) -> None:
    assert rename_keys(text, renames)[0] == expected


@pytest.mark.parametrize("renames", ["{a.<x>: b.<y>}", "{a.<x>: b}", "{a.<x>.<x>: b.<x>.<x>}", "{a: }", "[a]"])
def test_both_places_need_the_same_placeholders(renames: str) -> None:
    data, problems = rename_keys("b: {c: 1}", renames)
    assert data == {"b": {"c": 1}}
    assert [problem.partition(" ")[0] for problem in problems] == ["error"]


VALUES = st.recursive(
    st.integers(0, 3), lambda inner: st.dictionaries(st.sampled_from("xyz"), inner, max_size=3), max_leaves=6
)
LAYERS = st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3)


@given(LAYERS, LAYERS)
def test_an_overlay_is_idempotent_and_adds_only_its_own_keys(base: dict[str, Any], top: dict[str, Any]) -> None:
    result = overlay(base, top)
    assert overlay(result, top) == result
    assert overlay(base, {}) == base == overlay({}, base)
    assert result.keys() == base.keys() | top.keys()


SETTINGS = st.fixed_dictionaries({}, optional={"hours": st.integers(1, 9), "judged": st.booleans()})


@pytest.mark.slow
@given(SETTINGS, st.dictionaries(st.sampled_from(["short", "long", "mine"]), SETTINGS, min_size=1))
def test_a_mode_is_the_config_with_its_entry_applied(own: dict[str, Any], modes: dict[str, dict[str, Any]]) -> None:
    _, merged, problems = merge_modes(yaml.safe_dump({**own, "modes": modes}))
    shipped = yaml.safe_load(SHIPPED)
    for name, entry in modes.items():
        expected = {**shipped, **shipped["modes"].get(name, {}), **own, **entry}
        assert {key: merged[name][key] for key in ("hours", "judged")} == {
            key: expected[key] for key in ("hours", "judged")
        }
    assert problems == []
