"""`compose.yaml` and the Dockerfile use valid commands and run the program without privileges."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from skillrun.cli.main import skillrun
from skillrun.repository.gitignore import IgnoreRules, parse_rules

TOP = Path(__file__).parents[2]
COMPOSE: Any = yaml.safe_load((TOP / "compose.yaml").read_text(encoding="utf-8"))


@pytest.mark.row("W2")
@pytest.mark.parametrize("service", ["migrate", "worker"])
def test_compose_commands_are_valid_for_the_command_line(service: str) -> None:
    arguments = list(COMPOSE["services"][service]["command"])
    context = click.Context(skillrun)
    command: click.Command | None = skillrun
    while isinstance(command, click.Group) and arguments and not arguments[0].startswith("-"):
        command = command.get_command(context, arguments.pop(0))
    assert command is not None
    command.make_context(service, arguments, resilient_parsing=False)


@pytest.mark.row("W2")
def test_two_workers_start_after_the_migration() -> None:
    worker = COMPOSE["services"]["worker"]
    assert worker["deploy"]["replicas"] == 2
    assert worker["depends_on"] == {"migrate": {"condition": "service_completed_successfully"}}
    assert worker["cap_drop"] == ["ALL"]
    assert worker["read_only"] is True


@pytest.mark.row("W2")
def test_the_image_runs_as_an_unprivileged_user_and_contains_its_sources() -> None:
    lines = (TOP / "Dockerfile").read_text(encoding="utf-8").splitlines()
    users = [line.split()[1] for line in lines if line.startswith("USER ")]
    assert users == ["10001:10001"]
    included = {line[1:] for line in (TOP / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    library = {"workflows", "skills", "roles", "config", "starters"}
    assert included >= {"pyproject.toml", "README.md", "LICENSE", "engine"} | library
    assert all((TOP / name).exists() for name in included)


@pytest.mark.finding("FS14")
def test_files_with_the_keys_of_workers_are_ignored_by_git_and_withheld_from_models() -> None:
    names = [entry["path"] for service in COMPOSE["services"].values() for entry in service.get("env_file", ())]
    assert names == ["workers.env"]
    settings = yaml.safe_load((TOP / "config/skillrun.yaml").read_text(encoding="utf-8"))
    for rules in (parse_rules((TOP / ".gitignore").read_bytes()), IgnoreRules(settings["repository"]["withheld"])):
        assert all(rules.verdict((name,), False, lambda: None) for name in names)
