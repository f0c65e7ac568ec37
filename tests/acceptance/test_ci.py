"""Support for a project's CI: problems as SARIF and annotations, a pre-commit hook, a GitHub Action."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, Final

import jsonschema
import pytest
import yaml

from skillrun.cli.loading import open_library
from tests.acceptance.conftest import Call, Done, Make

TOP = Path(__file__).parents[2]

# The parts of the official SARIF 2.1.0 schema that readers rely on.
SARIF: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["$schema", "version", "runs"],
    "additionalProperties": False,
    "properties": {
        "$schema": {"pattern": "sarif-schema-2\\.1\\.0\\.json$"},
        "version": {"const": "2.1.0"},
        "runs": {"type": "array", "minItems": 1, "maxItems": 1, "items": {"$ref": "#/$defs/run"}},
    },
    "$defs": {
        "text": {
            "type": "object",
            "required": ["text"],
            "additionalProperties": False,
            "properties": {"text": {"type": "string", "minLength": 1, "pattern": r"\A[^\u0000-\u0009\u2028]*\Z"}},
        },
        "run": {
            "type": "object",
            "required": ["tool", "results", "columnKind", "originalUriBaseIds"],
            "additionalProperties": False,
            "properties": {
                "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
                "originalUriBaseIds": {
                    "additionalProperties": {"required": ["uri"], "properties": {"uri": {"pattern": "^file:///.*/$"}}}
                },
                "invocations": {
                    "items": {
                        "required": ["executionSuccessful"],
                        "additionalProperties": False,
                        "properties": {"executionSuccessful": {"type": "boolean"}},
                    }
                },
                "tool": {
                    "required": ["driver"],
                    "additionalProperties": False,
                    "properties": {
                        "driver": {
                            "required": ["name"],
                            "additionalProperties": False,
                            "properties": {
                                "name": {"type": "string"},
                                "version": {"type": "string"},
                                "rules": {"type": "array", "uniqueItems": True, "items": {"$ref": "#/$defs/rule"}},
                            },
                        }
                    },
                },
                "results": {"type": "array", "items": {"$ref": "#/$defs/result"}},
            },
        },
        "rule": {
            "required": ["id"],
            "additionalProperties": False,
            "properties": {
                "id": {"type": "string"},
                "shortDescription": {"$ref": "#/$defs/text"},
                "fullDescription": {"$ref": "#/$defs/text"},
                "help": {"$ref": "#/$defs/text"},
            },
        },
        "result": {
            "required": ["message", "ruleId", "ruleIndex", "level", "locations"],
            "additionalProperties": False,
            "properties": {
                "ruleId": {"type": "string"},
                "ruleIndex": {"type": "integer", "minimum": 0},
                "level": {"enum": ["none", "note", "warning", "error"]},
                "message": {"$ref": "#/$defs/text"},
                "locations": {"minItems": 1, "maxItems": 1, "items": {"$ref": "#/$defs/location"}},
            },
        },
        "location": {
            "additionalProperties": False,
            "required": ["physicalLocation"],
            "properties": {
                "physicalLocation": {
                    "additionalProperties": False,
                    "required": ["artifactLocation", "region"],
                    "properties": {
                        "artifactLocation": {
                            "required": ["uri"],
                            "additionalProperties": False,
                            "properties": {"uri": {"format": "uri-reference"}, "uriBaseId": {"const": "%SRCROOT%"}},
                        },
                        "region": {
                            "required": ["startLine", "startColumn"],
                            "additionalProperties": {"type": "integer", "minimum": 1},
                        },
                    },
                }
            },
        },
    },
}


@pytest.fixture
def broken(project: Make) -> Path:
    """A project with an error in one file; another has a name that needs escaping. There is a hostile key."""
    folder = project("greeting")
    phase = folder / "skills" / "greeting" / "send.md"
    hostile = '"x%y\\u2028::error::z\\r\\nw": 1\n---\n## '
    phase.write_text(phase.read_text().replace("outputs:", "output:").replace("---\n## ", hostile))
    role = '---\nname: "50%, a:b"\nskills: ["x%y"]\n---\nYou write.\n'
    (folder / "roles" / "50%, a:b.md").write_text(role)
    return folder


def positions(log: Any) -> list[tuple[str, str, int, int]]:
    results = log["runs"][0]["results"]
    locations = [(result["ruleId"], result["locations"][0]["physicalLocation"]) for result in results]
    return [
        (rule, location["artifactLocation"]["uri"], location["region"]["startLine"], location["region"]["startColumn"])
        for rule, location in locations
    ]


@pytest.mark.slow
@pytest.mark.row("A7")
def test_problems_are_written_as_sarif(broken: Path, skillrun: Call) -> None:
    done = skillrun("validate", "--format", "sarif")
    assert done.code == 1
    jsonschema.Draft202012Validator(SARIF).validate(done.json)
    assert "error[unknown-key]: unknown key `output`" in done.err  # for readers of the log
    (run,) = done.json["runs"]
    assert run["originalUriBaseIds"]["%SRCROOT%"]["uri"] == f"{broken.as_uri()}/"
    assert [run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] for result in run["results"]] == [
        result["ruleId"] for result in run["results"]
    ]
    assert ("unknown-key", "skills/greeting/send.md", 6, 1) in positions(done.json)
    assert ("unknown-skill", "roles/50%25%2C%20a%3Ab.md", 3, 10) in positions(done.json)
    message = next(result["message"]["text"] for result in run["results"] if result["ruleId"] == "unknown-key")
    assert message == "unknown key `output`\nhint: did you mean `outputs`?"


@pytest.mark.slow
@pytest.mark.row("A7")
def test_sarif_without_problems_has_no_results_and_exits_with_0(project: Make, skillrun: Call) -> None:
    project("greeting")
    done = skillrun("validate", "--format", "sarif", "--strict")
    jsonschema.Draft202012Validator(SARIF).validate(done.json)
    assert (done.code, done.json["runs"][0]["results"]) == (0, [])


@pytest.mark.slow
@pytest.mark.row("A7")
def test_columns_are_counted_in_code_points(project: Make, skillrun: Call) -> None:
    folder = project("greeting")
    (folder / "roles" / "writer.md").write_text('---\nname: writer\nskills: ["🎉🎉", none]\n---\nYou write.\n')
    log = skillrun("validate", "--format", "sarif").json
    assert log["runs"][0]["columnKind"] == "unicodeCodePoints"
    assert ("unknown-skill", "roles/writer.md", 3, 16) in positions(log)


@pytest.mark.slow
@pytest.mark.row("A7")
def test_problems_are_written_as_annotations(broken: Path, skillrun: Call) -> None:
    done = skillrun("validate", "--format", "github")
    assert done.code == 1
    *commands, summary = done.out.splitlines()
    assert summary.startswith(f"{len(commands)} errors, 0 warnings in ")
    assert (
        "::error file=skills/greeting/send.md,line=6,col=1,title=unknown-key"
        "::unknown key `output`%0Ahint: did you mean `outputs`?"
    ) in commands
    (escaped,) = (line for line in commands if "50%25" in line)
    assert escaped.startswith(
        "::error file=roles/50%25%2C a%3Ab.md,line=3,col=10,title=unknown-skill::there is no skill `x%25y`%0Ahint: "
    )
    start = "::error file=skills/greeting/send.md,line=9,col=1,title=unknown-key"
    hostile = f"{start}::unknown key `x%25y\\u2028::error::z\\r\\nw`%0Ahint: "
    assert any(line.startswith(hostile) for line in commands)


@pytest.mark.slow
@pytest.mark.row("A7")
def test_warnings_are_written_as_warnings(project: Make, skillrun: Call) -> None:
    folder = project("greeting")
    spare = (folder / "skills" / "greeting" / "send.md").read_text()
    (folder / "skills" / "greeting" / "spare.md").write_text(
        spare.replace("phases.draft.outputs.words", "inputs.person")
    )
    done = skillrun("validate", "--format", "github")
    assert (done.code, done.out.split(" ")[0]) == (0, "::warning")
    assert skillrun("validate", "--format", "github", "--strict").code == 1
    (result,) = skillrun("validate", "--format", "sarif").json["runs"][0]["results"]
    assert result["level"] == "warning"


@pytest.mark.slow
@pytest.mark.row("A7")
def test_paths_are_relative_to_the_current_directory(
    broken: Path, skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(broken.parent)
    assert "file=project/skills/greeting/send.md,line=6" in skillrun("validate", "project", "--format", "github").out
    log = skillrun("validate", "project", "--format", "sarif").json
    assert ("unknown-key", "project/skills/greeting/send.md", 6, 1) in positions(log)
    monkeypatch.chdir(broken / "roles")  # a file in a parent folder has no relative URI in SARIF
    log = skillrun("validate", "--format", "sarif").json
    uri = (broken / "skills/greeting/send.md").as_uri()
    assert ("unknown-key", uri, 6, 1) in positions(log)
    assert "file=../skills/greeting/send.md" in skillrun("validate", "--format", "github").out


@pytest.mark.slow
@pytest.mark.row("A7")
def test_a_file_outside_the_project_is_named_in_the_message(
    project: Make, skillrun: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project("greeting")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "mine"))
    role = tmp_path / "mine" / "skillrun" / "roles" / "poet.md"
    role.parent.mkdir(parents=True)
    role.write_text("---\nname: poet\nvariants: 3\n---\nYou write.\n")
    line = skillrun("validate", "--format", "github").out.splitlines()[0]
    assert line == "::error title=type::~config/roles/poet.md:3:11: expected a mapping of names to texts"
    assert positions(skillrun("validate", "--format", "sarif").json) == [("type", role.as_uri(), 3, 11)]


@pytest.mark.slow
@pytest.mark.row("A7")
def test_a_folder_without_a_project_is_reported_as_a_notice(project: Make, skillrun: Call) -> None:
    project()
    done = skillrun("validate", "--format", "github")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[-1].startswith("::notice title=skillrun::. has no project files")


@pytest.mark.slow
@pytest.mark.row("A7")
def test_formats_match_their_options_and_conflicts_are_refused(broken: Path, skillrun: Call) -> None:
    assert skillrun("validate", "--format", "text") == skillrun("validate")
    assert skillrun("validate", "--format", "json") == skillrun("validate", "--json")
    assert skillrun("validate", "--format", "json", "--json").code == 1
    done = skillrun("validate", "--json", "--format", "sarif")
    assert (done.code, done.out) == (2, "")
    assert "cannot be combined" in done.err
    assert skillrun("validate", "--format", "xml").code == 2
    done = skillrun("validate", "--format", "sarif", "skills/greeting/draft.md")
    assert (done.code, positions(done.json)) == (0, [])


@pytest.mark.slow
@pytest.mark.row("A7")
def test_the_hook_checks_the_project_when_one_of_its_files_is_committed(broken: Path, skillrun: Call) -> None:
    (hook,) = yaml.safe_load((TOP / ".pre-commit-hooks.yaml").read_text())
    assert (hook["language"], hook["pass_filenames"]) == ("python", False)  # the package's command, on the project
    program, *arguments = hook["entry"].split()
    assert program == "skillrun"
    assert skillrun(*arguments).code == 1
    assert skillrun(*arguments, "skills/greeting/draft.md").code == 0
    pattern = re.compile(hook["files"])
    shipped = {label.removeprefix("skillrun:") for label in (source.label for source in open_library().files.values())}
    assert {name for name in shipped if not pattern.search(name)} == set()
    assert pattern.search("tools/agents/workflows/greeting.md")
    assert not any(pattern.search(name) for name in ("README.md", "docs/roles/x.txt", "runs/ada/state.md"))


@pytest.fixture
def action(tmp_path: Path) -> Call:
    """Runs the steps of the action after the installation, as a runner does, with the given inputs."""
    installed = tmp_path / "temp" / "skillrun" / "bin" / "skillrun"
    installed.parent.mkdir(parents=True)
    installed.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m skillrun "$@"\n')
    installed.chmod(0o755)
    definition = yaml.safe_load((TOP / "action.yml").read_text())
    install, *steps = (step for step in definition["runs"]["steps"] if "run" in step)
    assert "pip install" in install["run"]

    def run(*inputs: str) -> Done:
        values = {name: entry["default"] for name, entry in definition["inputs"].items()}
        values |= dict(text.split("=", 1) for text in inputs)
        outputs = []
        for step in steps:
            if step.get("if", "true") not in ("true", f"inputs.test == '{values['test']}'"):
                continue
            variables = {
                key: re.sub(r"\$\{\{ inputs\.(\S+) \}\}", lambda m: values[m[1]], v) for key, v in step["env"].items()
            }
            environment = {**os.environ, "RUNNER_TEMP": str(tmp_path / "temp"), **variables}
            command = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", step["run"]]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            outputs.append(done.stdout)
            if done.returncode:
                return Done(done.returncode, "".join(outputs), done.stderr)
        return Done(0, "".join(outputs), "")

    return run


@pytest.mark.slow
@pytest.mark.row("A7")
def test_the_action_annotates_and_fails(broken: Path, action: Call) -> None:
    done = action()
    assert done.code == 1
    assert "::error file=skills/greeting/send.md,line=6,col=1," in done.out
    assert action("path=skills/greeting/draft.md").code == 0
    done = action("path=$(touch hostile)")  # an input is not part of the script
    assert (done.code, (broken / "hostile").exists()) == (2, False)


@pytest.mark.slow
@pytest.mark.row("A7")
def test_the_action_is_strict_on_request(project: Make, action: Call) -> None:
    folder = project("greeting")
    spare = (folder / "skills" / "greeting" / "send.md").read_text()
    (folder / "skills" / "greeting" / "spare.md").write_text(
        spare.replace("phases.draft.outputs.words", "inputs.person")
    )
    assert [action().code, action("strict=").code, action("strict=true", "path=").code] == [0, 0, 1]
    assert (action("strict=yes").code, action("test=1").code) == (2, 2)


@pytest.mark.slow
@pytest.mark.row("A7")
def test_the_action_runs_the_cases_on_request(project: Make, action: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = project("greeting")
    case = folder / "tests" / "greeting" / "plain.md"
    case.parent.mkdir(parents=True)
    case.write_text("---\ninputs: {person: Ada}\nexpect:\n  calls: 100\n---\n")
    assert action().code == 0
    monkeypatch.chdir(folder.parent)
    for path in ("path=project", "path=project/roles/writer.md"):
        done = action("test=true", path)
        assert done.code == 1, path
        assert "greeting/plain: failed" in done.out
    case.write_text("---\ninputs: {person: Ada}\nexpect: {outcome: completed}\n---\n")
    assert "greeting/plain: passed" in action("test=true", "path=project").out
    (folder / "roles" / "writer.md").unlink()
    done = action("test=true", "path=project")  # an invalid project does not run
    assert (done.code, "greeting/plain" in done.out) == (1, False)


@pytest.mark.row("A7")
def test_the_action_uses_no_container_and_installs_the_requested_commit() -> None:
    runs = yaml.safe_load((TOP / "action.yml").read_text())["runs"]
    assert runs["using"] == "composite"
    scripts = [step["run"] for step in runs["steps"] if "run" in step]
    assert any("pip install" in script and '"$GITHUB_ACTION_PATH[outline]"' in script for script in scripts)
    assert not any("${{" in script for script in scripts)  # an expression would run as code


@pytest.mark.row("N1")
def test_ci_covers_each_python_version_and_system_with_minimal_permissions() -> None:
    ci = yaml.load((TOP / ".github/workflows/ci.yml").read_text(), yaml.BaseLoader)  # reads the key `on` as text
    assert ci["permissions"] == {"contents": "read"}
    assert ci["concurrency"]["group"] == "${{ github.workflow }}-${{ github.ref }}"
    project = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]
    versions = [one.rpartition(" ")[2] for one in project["classifiers"] if re.search(r":: 3\.[0-9]+$", one)]
    for name in ("test", "package"):
        matrix = {"os": ["ubuntu-latest", "macos-latest"], "python": versions}
        assert ci["jobs"][name]["strategy"]["matrix"] == matrix
    commands = []
    for job in ci["jobs"].values():
        assert 0 < int(job["timeout-minutes"]) <= 60
        assert "permissions" not in job
        for step in job["steps"]:
            assert re.fullmatch(r"actions/[a-z-]+@v[0-9]+", step.get("uses", "actions/none@v1"))
            commands += [line.strip() for line in step.get("run", "").splitlines()]
    assert not any("${{" in command for command in commands)  # an expression would run as code
    assert {"make test PYTHON=python", "make check-slow-tests PYTHON=python", "python -m build"} <= set(commands)
    assert {"../bin/skillrun --version", "../bin/skillrun validate --strict"} <= set(commands)
    targets = {word for command in commands for word in command.split()[1:2] if command.startswith("make ")}
    assert all(f"\n{target}:" in (TOP / "Makefile").read_text() for target in targets)


@pytest.mark.slow  # checks the whole library
@pytest.mark.finding("FX14")
def test_shipped_files_are_checked_on_request(project: Make, skillrun: Call) -> None:
    folder = project()
    (folder / "roles").mkdir()
    (folder / "roles/host.md").write_text("---\nname: host\ndescription: Greets people.\n---\nYou greet people.\n")
    (folder / "tests/plan").mkdir(parents=True)
    case = "---\ninputs: {feature: Add a page}\nexpect: {phases: {nowhere: completed}}\n---\n"
    (folder / "tests/plan/mine.md").write_text(case)
    own, everything = (
        json.loads(skillrun("validate", "--json", *flags).out)["files"] for flags in ((), ("--library",))
    )
    assert own < 40
    assert everything > 100
    done = skillrun("validate")
    assert done.code == 1
    assert "nowhere" in done.out  # the case is checked with the shipped workflow that it tests
