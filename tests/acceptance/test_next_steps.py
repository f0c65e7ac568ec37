"""Messages about finished, waiting or refused runs name the command to run next, and that command works.

Each scene ends with such a message. The test runs the commands in it, in the same folder.
"""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import Call, Done, Make

SUCCESS = frozenset({0, 75})
COMMAND = re.compile(r"`(skillrun(?: [^`]+)?)`")
ANSWERS = re.compile(r"put `([^`]+)`[^`]* into ([\w-]+\.yaml)")
FAILING = '[{address: "greeting/draft/words/*", fail: KIND}]'
GREET = ("greeting", "Ada", "--model", "scripted:x")
ASKING = {
    "workflows/trip.md": "---\nname: trip\ndescription: Asks.\nphases: {asking: }\n---\n",
    "skills/trip/asking.md": "---\nkind: phase\nsteps:\n"
    "  - {id: where, ask: Where to?, choices: [The lake, The hills]FORM}\n  - {id: note, write: trip.md}\n---\n"
    "## note\n{{ where.answer | default('nowhere') }}\n",
}
TRIES = {
    "workflows/tries.md": "---\nname: tries\ndescription: Tries.\nphases: {one: }\nconfig: tries\n---\n",
    "config/tries.yaml": "breakers: {patience: {limit: 1, then: ask}}\n",
    "skills/tries/one.md": "---\nkind: phase\nsteps:\n"
    "  - {id: words, agent: writer, retry: patience, writes: a.md}\n---\n"
    "## words\nSay something.\n",
}


@dataclass
class Scene:
    """A project with the greeting example, and the command line."""

    folder: Path
    skillrun: Call
    patch: pytest.MonkeyPatch

    def write(self, files: dict[str, str]) -> None:
        for name, text in files.items():
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_text(text)

    def failing(self, kind: str = "invalid_request", *options: str) -> Done:
        self.write({"script.yaml": FAILING.replace("KIND", kind)})
        return self.skillrun(*GREET, "--name", "run", "--unattended", "--script", "script.yaml", *options)

    def run(self, *options: str) -> Done:
        return self.skillrun(*GREET, "--unattended", *(options or ("--name", "run")))


def completed(scene: Scene) -> Done:
    return scene.run()


def completed_in_another_folder(scene: Scene) -> Done:
    return scene.run("--name", "run", "--out", "other place")


def failed(scene: Scene) -> Done:
    return scene.failing()


def failed_in_another_folder(scene: Scene) -> Done:
    return scene.failing("invalid_request", "--out", "other place")


def failed_on_an_overloaded_provider(scene: Scene) -> Done:
    return scene.failing("overloaded")


def failed_on_a_timeout(scene: Scene) -> Done:
    return scene.failing("timeout")


def resumed_by_path_from_another_project(scene: Scene) -> Done:
    scene.failing()
    other = scene.folder.parent / "another"
    shutil.copytree(scene.folder, other, ignore=shutil.ignore_patterns("runs"))
    scene.patch.chdir(other)
    scene.write({"script.yaml": FAILING.replace("KIND", "invalid_request")})
    return scene.skillrun(
        "resume", str(scene.folder / "runs" / "run"), "--unattended", "--script", "../project/script.yaml"
    )


def budget_exhausted(scene: Scene) -> Done:
    return scene.run("--name", "run", "--budget", "calls=0")


def token_budget_exhausted(scene: Scene) -> Done:
    return scene.run("--name", "run", "--budget", "tokens=10")


def name_taken(scene: Scene) -> Done:
    scene.failing()
    return scene.run()


def name_taken_in_another_folder(scene: Scene) -> Done:
    scene.failing("invalid_request", "--out", "other place")
    return scene.run("--name", "run", "--out", "other place")


def same_request_again(scene: Scene) -> Done:
    scene.write({"script.yaml": FAILING.replace("KIND", "invalid_request")})
    scene.run("--script", "script.yaml")
    return scene.run("--script", "script.yaml")


def already_completed(scene: Scene) -> Done:
    scene.run()
    return scene.skillrun("resume", "run")


def already_completed_in_another_folder(scene: Scene) -> Done:
    scene.run("--name", "run", "--out", "other place")
    return scene.skillrun("resume", "other place/run")


def changed_since_the_run(scene: Scene, *options: str) -> Done:
    scene.write({"script.yaml": '[{address: "greeting/send/summary/*", fail: invalid_request}]'})
    send = (scene.folder / "skills/greeting/send.md").read_text()
    step = "  - {id: envelope, write: envelope.md}\n"
    more = f"  - {{id: letter, agent: writer}}\n{step}  - {{id: last, agent: writer}}\n"
    send = send.replace(step, more) + "\n## letter\nWrite a letter.\n\n## last\nEnd it.\n"
    scene.write({"skills/greeting/send.md": send, "script.yaml": '[{address: "*/last/*", fail: invalid_request}]'})
    assert scene.run("--name", "run", "--script", "script.yaml", *options).code == 1
    scene.write({"skills/greeting/send.md": send.replace("Write a letter.", "Write a long letter.")})
    return scene.skillrun("resume", f"{options[1]}/run" if options else "run", "--unattended")


def changed_in_another_folder(scene: Scene) -> Done:
    return changed_since_the_run(scene, "--out", "other place")


def waits_for_a_form(scene: Scene) -> Done:
    scene.write({name: text.replace("FORM", ", form: FORM.md") for name, text in ASKING.items()})
    return scene.skillrun("trip", "--model", "scripted:x", "--name", "run")


def waits_for_an_answer(scene: Scene) -> Done:
    scene.write({name: text.replace("FORM", "") for name, text in ASKING.items()})
    return scene.skillrun("trip", "--model", "scripted:x", "--name", "run")


def waits_at_a_breaker(scene: Scene) -> Done:
    scene.write({**TRIES, "script.yaml": '[{address: "tries/*", fail: invalid_request, times: 9}]'})
    return scene.skillrun("tries", "--model", "scripted:x", "--name", "run", "--script", "script.yaml")


def unknown_run(scene: Scene) -> Done:
    return scene.skillrun("resume", "nowhere")


def show_of_an_unknown_run(scene: Scene) -> Done:
    return scene.skillrun("show", "nowhere")


def unknown_flag(scene: Scene) -> Done:
    return scene.skillrun("greeting", "Ada", "--volume")


def wrong_input(scene: Scene) -> Done:
    return scene.skillrun("greeting", "Ada", "--lines", "900")


def broken_file_found_by_the_doctor(scene: Scene) -> Done:
    scene.write({"skills/greeting/send.md": "---\nkind: phas\n---\n"})
    return scene.skillrun("doctor")


def broken_workflow_in_the_list(scene: Scene) -> Done:
    scene.write({"workflows/broken.md": "---\nname: [\n---\n"})
    return scene.skillrun("list")


def run_with_an_old_schema(scene: Scene) -> Done:
    scene.failing()
    state = scene.folder / "runs/run/state.md"
    state.write_text(state.read_text().replace("schema_version: 2", "schema_version: 1"))
    # Runs of schema 1 have no seal.
    scene.write({"config/models.yaml": 'tiers: {strong: "scripted:x", fast: "scripted:x"}\n'})
    return scene.skillrun("show", "run")


def untrusted_project(scene: Scene) -> Done:
    scene.write(
        {"config/models.yaml": 'providers: {x: {kind: openai, base_url: "https://x.example/v1", key: X_API_KEY}}\n'}
    )
    return scene.skillrun("validate")


def run_from_another_source(scene: Scene) -> Done:
    scene.failing()
    state = scene.folder / "runs/run/state.md"
    state.write_text(
        state.read_text().replace("  strong: scripted:x\n", "  strong: scripted:x\n  dear: openai:gpt-9\n")
    )
    return scene.skillrun("resume", "run", "--unattended")


REPORTS = frozenset({0, 1})  # commands that report problems exit with 1 if there are any
SCENES: dict[Callable[..., Done], tuple[str, frozenset[int]]] = {
    completed: ("skillrun show", SUCCESS),
    completed_in_another_folder: ("skillrun show", SUCCESS),
    failed: ("skillrun resume", SUCCESS),
    failed_in_another_folder: ("skillrun resume", SUCCESS),
    failed_on_an_overloaded_provider: ("skillrun resume", SUCCESS),
    failed_on_a_timeout: ("skillrun resume", SUCCESS),
    resumed_by_path_from_another_project: ("skillrun resume", SUCCESS),
    budget_exhausted: ("skillrun resume", SUCCESS),
    token_budget_exhausted: ("skillrun resume", SUCCESS),
    name_taken: ("skillrun resume", SUCCESS),
    name_taken_in_another_folder: ("skillrun resume", SUCCESS),
    same_request_again: ("skillrun resume", SUCCESS),
    already_completed: ("skillrun show", SUCCESS),
    already_completed_in_another_folder: ("skillrun show", SUCCESS),
    changed_since_the_run: ("skillrun resume", SUCCESS),
    changed_in_another_folder: ("skillrun resume", SUCCESS),
    waits_for_a_form: ("skillrun resume", SUCCESS),
    waits_for_an_answer: ("skillrun resume", SUCCESS),
    waits_at_a_breaker: ("skillrun resume", SUCCESS),
    unknown_run: ("skillrun runs", SUCCESS),
    show_of_an_unknown_run: ("skillrun runs", SUCCESS),
    unknown_flag: ("skillrun greeting --help", SUCCESS),
    wrong_input: ("skillrun greeting --help", SUCCESS),
    broken_file_found_by_the_doctor: ("skillrun validate", REPORTS),
    broken_workflow_in_the_list: ("skillrun validate", REPORTS),
    run_with_an_old_schema: ("skillrun resume", SUCCESS),
    untrusted_project: ("skillrun trust", REPORTS),
    run_from_another_source: ("skillrun resume", SUCCESS),
}


@pytest.fixture
def scene(project: Make, skillrun: Call, monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(project("greeting"), skillrun, monkeypatch)


def commands_in(done: Done) -> list[list[str]]:
    """The commands that a message names, split as a shell would."""
    return [
        shlex.split(command)[1:] for command in dict.fromkeys(COMMAND.findall(" ".join((done.out + done.err).split())))
    ]


@pytest.mark.slow
@pytest.mark.finding("FM1", "FL7", "FL16", "FL17")
@pytest.mark.parametrize("run_scene", SCENES, ids=lambda run_scene: run_scene.__name__)
def test_every_suggested_command_works(run_scene: Callable[..., Done], scene: Scene) -> None:
    expected, codes = SCENES[run_scene]
    done: Any = run_scene(scene)
    commands = commands_in(done)
    for line, name in ANSWERS.findall(" ".join(done.out.split())):  # write the suggested answers
        scene.write({name: line})
    if (scene.folder / "script.yaml").exists():  # fix the cause
        scene.write({"script.yaml": "[]"})
    assert any(shlex.join(["skillrun", *arguments]).startswith(expected) for arguments in commands), done.out + done.err
    for arguments in commands:
        followup = scene.skillrun(*arguments)
        assert followup.code in codes, (arguments, followup.out + followup.err)
        assert "Traceback" not in followup.out + followup.err


def test_the_next_command_repeats_the_script_option(scene: Scene) -> None:
    scene.write({"my script.yaml": FAILING.replace("KIND", "invalid_request")})
    done = scene.run("--name", "run", "--script", "my script.yaml")
    assert commands_in(done)[-1] == ["resume", "run", "--unattended", "--script", "my script.yaml"], done.out


def test_the_next_command_repeats_the_options_of_the_run(scene: Scene) -> None:
    scene.write(
        {
            name: text.replace("FORM", ", default: \"{{ 'The lake' if run.round > 9 }}\"")
            for name, text in ASKING.items()
        }
    )
    scene.write({"my answers.yaml": "{}\n"})
    options = ("--unattended", "--answers", "my answers.yaml")
    done = scene.skillrun("trip", "--model", "scripted:x", "--name", "run", *options)
    assert "into 'my answers.yaml' and run" in done.out
    assert "or use a terminal without `--unattended`" in done.out
    assert commands_in(done)[-1] == ["resume", "run", "--unattended", "--answers", "my answers.yaml"], done.out
    done = scene.skillrun("resume", "run")
    assert commands_in(done)[-2:] == [["resume", "run", "--answers", "answers.yaml"], ["resume", "run"]], done.out
    exhausted = scene.run("--name", "spent", "--budget", "calls=0", "--answers", "my answers.yaml")
    assert commands_in(exhausted)[-1][:5] == ["resume", "spent", "--unattended", "--answers", "my answers.yaml"], (
        exhausted.out
    )
    assert commands_in(exhausted)[-1][5] == "--budget"


def interrupt_run(scene: Scene) -> None:
    """Create a run with a script and `--unattended` whose process was killed."""
    scene.failing()
    state = scene.folder / "runs" / "run" / "state.md"
    text = state.read_text()
    assert "\nstatus: failed\n" in text
    state.write_text(text.replace("\nstatus: failed\n", "\nstatus: running\n"))
    scene.write({"script.yaml": '[{address: "greeting/draft/words/*", text: Hello from the script.}]'})


def test_an_interrupted_run_shows_the_resume_command_with_its_options(scene: Scene) -> None:
    interrupt_run(scene)
    shown = scene.skillrun("show", "run")
    assert shown.out.startswith("run · greeting · interrupted")
    command = "skillrun resume run --unattended --script script.yaml"
    assert shown.out.splitlines()[-1] == f"next: resume with `{command}`"
    assert scene.skillrun("show", "run", "--json").json["next"] == f"resume with `{command}`"
    assert scene.skillrun(*shlex.split(command)[1:]).code == 0
    assert (scene.folder / "runs" / "run" / "greeting.md").read_text() == "Hello from the script.\n"
    assert scene.skillrun("show", "run", "--json").json["next"] == ""


def test_the_resume_command_has_the_full_path_of_a_script_in_another_folder(scene: Scene) -> None:
    interrupt_run(scene)
    scene.patch.chdir(scene.folder / "skills")
    assert scene.skillrun("show", "run").out.endswith(f" --script {scene.folder / 'script.yaml'}`\n")


def test_a_run_resumed_without_its_script_prints_the_command_with_the_script(scene: Scene) -> None:
    interrupt_run(scene)
    done = scene.skillrun("resume", "run", "--unattended")
    assert done.code == 0
    assert "warning: the run was started with `--script script.yaml`; without it, replies are generated" in done.err
    assert "hint: `skillrun resume run --unattended --script script.yaml` uses the script" in done.err


def test_a_waiting_run_shows_the_answers_command(scene: Scene) -> None:
    scene.write({name: text.replace("FORM", "") for name, text in ASKING.items()})
    assert scene.skillrun("trip", "--name", "trip").code == 75
    assert scene.skillrun("show", "trip").out.splitlines()[-1] == "next: answer with `skillrun answers trip`"


def test_a_run_without_recorded_options_shows_the_plain_command(scene: Scene) -> None:
    interrupt_run(scene)
    transcript = scene.folder / "runs" / "run" / ".run" / "transcript.ndjson"
    transcript.write_text(re.sub(r', "flags": \{[^}]*\}', "", transcript.read_text()))
    assert scene.skillrun("show", "run").out.splitlines()[-1] == "next: resume with `skillrun resume run`"
