"""Config layers merge key by key; only collections accept new keys; features depend on modes and requirements."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from skillrun.library.configuration import check_switches, merge, resolve_features
from skillrun.library.roots import package_library
from skillrun.syntax.diagnostics import Problems
from skillrun.syntax.document import parse_config
from skillrun.syntax.source import Mapping, Source

SHIPPED = """
threshold: 8
weight: 0.6
name: fast
words: [one, two]
limits: {calls: 5, note: text}
presets:
  small: {members: [a]}
  large: {members: [a, b]}
lists: {red: [x], blue: [y]}
numbers: {red: 10, blue: 20}
texts: {red: x, blue: y}
parts: [{name: first, required: true}, {name: second, note: short}]
"""


def layer(text: str) -> Mapping:
    problems = Problems()
    mapping = parse_config(Source.of(text), problems)
    assert mapping is not None
    assert not len(problems)
    return mapping


def merge_layers(*texts: str) -> tuple[dict[str, Any], list[str]]:
    problems = Problems()
    data = merge([layer(text) for text in (*texts, SHIPPED)], problems)
    return data, [f"{problem.severity} {problem.line} {problem.message}; {problem.hint}" for problem in problems]


def test_a_layer_overrides_single_keys_and_the_first_layer_wins() -> None:
    data, problems = merge_layers("threshold: 7\n", "threshold: 6\nlimits: {calls: 3}\nwords: [three]\nweight: 1\n")
    assert problems == []
    assert (data["threshold"], data["limits"], data["words"]) == (7, {"calls": 3, "note": "text"}, ["three"])
    assert data["weight"] == 1


def test_a_list_of_records_is_replaced_as_a_whole() -> None:
    data, problems = merge_layers("parts:\n- {name: only, note: long, required: false}\n")
    assert problems == []
    assert data["parts"] == [{"name": "only", "note": "long", "required": False}]


def test_an_empty_key_changes_nothing() -> None:
    data, problems = merge_layers("presets:\nlimits: {calls: }\nwords:\n")
    assert problems == []
    assert data == yaml.safe_load(SHIPPED)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("treshold: 7\n", "error 1 the shipped config has no `treshold`; did you mean `threshold`?"),
        ("limits:\n  cals: 7\n", "error 2 the shipped config has no `limits.cals`; did you mean `calls`?"),
        ("limits: {zzz: 7}\n", "error 1 the shipped config has no `limits.zzz`; allowed: calls, note"),
        ("threshold: high\n", "error 1 `threshold` is text; the shipped config has a whole number; "),
        ("threshold: 7.5\n", "error 1 `threshold` is a number; the shipped config has a whole number; "),
        ("threshold: true\n", "error 1 `threshold` is true or false; the shipped config has a whole number; "),
        ("words: one\n", "error 1 `words` is text; the shipped config has a list; "),
        ("limits: [1]\n", "error 1 `limits` is a list; the shipped config has a mapping; "),
        (
            "presets:\n  smal: {members: [c]}\n",
            "warning 2 the shipped config has no `presets.smal`; did you mean `small`?",
        ),
        ("numbers: {bleu: 7}\n", "error 1 the shipped config has no `numbers.bleu`; did you mean `blue`?"),
        ("presets:\n  mine: [c]\n", "error 2 `presets.mine` is a list; the shipped config has a mapping; "),
        ("presets: {mine: }\n", "error 1 `presets.mine` has no value; "),
        ("parts: [{nam: x}]\n", "error 1 the shipped config has no `parts[].nam`; did you mean `name`?"),
        ("parts: [{name: [x]}]\n", "error 1 `parts[].name` is a list; the shipped config has text; "),
    ],
)
def test_an_invalid_value_is_reported_and_ignored(text: str, problem: str) -> None:
    data, problems = merge_layers(text)
    assert problems == [problem]
    if problem.startswith("error"):
        assert data == yaml.safe_load(SHIPPED)


@pytest.mark.parametrize(
    "entry", ["presets: {mine: {members: [z]}}", "lists: {green: [z]}", "texts: {green: z}", "numbers: {green: 30}"]
)
def test_a_collection_accepts_new_entries(entry: str) -> None:
    data, problems = merge_layers(entry)
    assert problems == []
    name, added = next(iter(yaml.safe_load(entry).items()))
    assert data[name] == {**yaml.safe_load(SHIPPED)[name], **added}


VALUES = st.recursive(
    st.integers() | st.booleans() | st.text("abc", max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("xyz"), inner, max_size=2),
    max_leaves=6,
)


@pytest.mark.slow
@given(st.dictionaries(st.sampled_from(["a", "b", "c"]), VALUES), st.dictionaries(st.sampled_from(["a", "b"]), VALUES))
def test_merging_keeps_every_key_and_every_type_of_the_shipped_file(base: dict[str, Any], top: dict[str, Any]) -> None:
    problems = Problems()
    data = merge([layer(yaml.safe_dump(top)), layer(yaml.safe_dump(base))], problems)
    assert data.keys() == base.keys()
    assert {key: type(value) for key, value in data.items()} == {key: type(value) for key, value in base.items()}
    assert merge([layer("{}"), layer(yaml.safe_dump(base))], problems) == base


FEATURES: dict[str, Any] = {
    "basic": {"enabled": True},
    "deep": {"enabled": True, "modes": ["advanced"]},
    "wide": {"enabled": True, "requires": ["basic", "deep"]},
    "off": {"enabled": False},
    "needs_off": {"enabled": True, "requires": ["off"]},
    "left": {"enabled": True, "requires": ["right"]},
    "right": {"enabled": True, "requires": ["left"]},
    "lost": {"enabled": True, "requires": ["nowhere"]},
}


@pytest.mark.row("P15")
def test_a_feature_is_on_when_it_and_its_requirements_are_enabled_in_the_mode() -> None:
    rapid, advanced = resolve_features(FEATURES, "rapid"), resolve_features(FEATURES, "advanced")
    assert [name for name, feature in advanced.items() if feature.on] == ["basic", "deep", "wide"]
    assert [name for name, feature in rapid.items() if feature.on] == ["basic"]
    assert {name: feature.because for name, feature in rapid.items() if feature.because} == {
        "deep": "not in rapid mode",
        "wide": "needs deep",
        "off": "not enabled",
        "needs_off": "needs off",
        "left": "needs right",
        "right": "needs left",
        "lost": "needs nowhere",
    }
    assert resolve_features(FEATURES, None)["deep"].on


@pytest.mark.row("P15")
def test_feature_cycles_and_unknown_features_are_reported_at_their_lines() -> None:
    problems = Problems()
    config = layer(yaml.safe_dump({"features": FEATURES}, sort_keys=False))
    check_switches(config, {"features": FEATURES}, problems)
    assert [(problem.code, problem.source_line.strip(), problem.message) for problem in problems] == [
        ("cycle", "- right", "`left` requires itself through `right`"),
        ("cycle", "- left", "`right` requires itself through `left`"),
        ("unknown-feature", "- nowhere", "there is no feature `nowhere`"),
    ]


@pytest.mark.parametrize(
    "breaker",
    [
        "{limit: 0, then: skip}",
        "{limit: 1.5, then: skip}",
        "{limit: 2, then: [skip]}",
        "{limit: 2}",
        "{then: skip}",
        "2",
    ],
)
def test_a_breaker_needs_a_limit_and_an_action(breaker: str) -> None:
    problems = Problems()
    check_switches(layer(f"breakers:\n  review: {breaker}\n  other: {{limit: 1, then: fall back}}\n"), {}, problems)
    assert [(problem.line, problem.severity) for problem in problems] == [(2, "error")]


@pytest.mark.row("P14", "P15")
def test_a_project_can_change_one_key_of_a_breaker_or_a_feature() -> None:
    problems = Problems()
    shipped = {"breakers": {"review": {"limit": 2, "then": "skip"}}, "features": {"deep": {"enabled": False}}}
    check_switches(layer("breakers: {review: {then: ask}}\nfeatures: {deep: {modes: [rapid]}}\n"), shipped, problems)
    assert list(problems) == []


def test_budgets_in_dollars_and_minutes_accept_fractions() -> None:
    problems = Problems()
    shipped = layer((package_library() / "config" / "skillrun.yaml").read_text(encoding="utf-8"))
    data = merge((layer("budgets: {price: 2.5, minutes: 0.5}\n"), shipped), problems)
    assert (data["budgets"]["price"], data["budgets"]["minutes"], len(problems)) == (2.5, 0.5, 0)
