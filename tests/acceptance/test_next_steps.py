"""Whatever ends a run, waits or is refused says a command that goes on, and that command works when it is typed.

A scene ends with such a message. The commands are taken out of it and typed, in the same folder.
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

WORKED = frozenset({0, 75})
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
    """A project with the greeting in it, and the command line in it."""

    folder: Path
    skillrun: Call
    patch: pytest.MonkeyPatch

    def write(self, files: dict[str, str]) -> None:
        for name, text in files.items():
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_text(text)

    def failing(self, kind: str = "invalid_request", *words: str) -> Done:
        self.write({"script.yaml": FAILING.replace("KIND", kind)})
        return self.skillrun(*GREET, "--name", "run", "--unattended", "--script", "script.yaml", *words)

    def run(self, *words: str) -> Done:
        return self.skillrun(*GREET, "--unattended", *(words or ("--name", "run")))


def completed(scene: Scene) -> Done:
    return scene.run()


def completed_elsewhere(scene: Scene) -> Done:
    return scene.run("--name", "run", "--out", "other place")


def failed(scene: Scene) -> Done:
    return scene.failing()


def failed_elsewhere(scene: Scene) -> Done:
    return scene.failing("invalid_request", "--out", "other place")


def failed_on_an_overloaded_provider(scene: Scene) -> Done:
    return scene.failing("overloaded")


def failed_on_time(scene: Scene) -> Done:
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


def budget_spent(scene: Scene) -> Done:
    return scene.run("--name", "run", "--budget", "calls=0")


def tokens_spent(scene: Scene) -> Done:
    return scene.run("--name", "run", "--budget", "tokens=10")


def name_taken(scene: Scene) -> Done:
    scene.failing()
    return scene.run()


def name_taken_elsewhere(scene: Scene) -> Done:
    scene.failing("invalid_request", "--out", "other place")
    return scene.run("--name", "run", "--out", "other place")


def same_words_again(scene: Scene) -> Done:
    scene.write({"script.yaml": FAILING.replace("KIND", "invalid_request")})
    scene.run("--script", "script.yaml")
    return scene.run("--script", "script.yaml")


def already_completed(scene: Scene) -> Done:
    scene.run()
    return scene.skillrun("resume", "run")


def already_completed_elsewhere(scene: Scene) -> Done:
    scene.run("--name", "run", "--out", "other place")
    return scene.skillrun("resume", "other place/run")


def changed_since(scene: Scene, *words: str) -> Done:
    scene.write({"script.yaml": '[{address: "greeting/send/summary/*", fail: invalid_request}]'})
    send = (scene.folder / "skills/greeting/send.md").read_text()
    step = "  - {id: envelope, write: envelope.md}\n"
    more = f"  - {{id: letter, agent: writer}}\n{step}  - {{id: last, agent: writer}}\n"
    send = send.replace(step, more) + "\n## letter\nWrite a letter.\n\n## last\nEnd it.\n"
    scene.write({"skills/greeting/send.md": send, "script.yaml": '[{address: "*/last/*", fail: invalid_request}]'})
    assert scene.run("--name", "run", "--script", "script.yaml", *words).code == 1
    scene.write({"skills/greeting/send.md": send.replace("Write a letter.", "Write a long letter.")})
    return scene.skillrun("resume", f"{words[1]}/run" if words else "run", "--unattended")


def changed_elsewhere(scene: Scene) -> Done:
    return changed_since(scene, "--out", "other place")


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


def unknown_run_shown(scene: Scene) -> Done:
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


def of_an_old_schema(scene: Scene) -> Done:
    scene.failing()
    state = scene.folder / "runs/run/state.md"
    state.write_text(state.read_text().replace("schema_version: 2", "schema_version: 1"))
    scene.write({"config/models.yaml": 'tiers: {strong: "scripted:x", fast: "scripted:x"}\n'})  # it has no seal
    return scene.skillrun("show", "run")


def untrusted(scene: Scene) -> Done:
    scene.write(
        {"config/models.yaml": 'providers: {x: {kind: openai, base_url: "https://x.example/v1", key: X_API_KEY}}\n'}
    )
    return scene.skillrun("validate")


def come_from_elsewhere(scene: Scene) -> Done:
    scene.failing()
    state = scene.folder / "runs/run/state.md"
    state.write_text(
        state.read_text().replace("  strong: scripted:x\n", "  strong: scripted:x\n  dear: openai:gpt-9\n")
    )
    return scene.skillrun("resume", "run", "--unattended")


SHOWS = frozenset({0, 1})  # what shows problems ends with 1 where there are some
SCENES: dict[Callable[..., Done], tuple[str, frozenset[int]]] = {
    completed: ("skillrun show", WORKED),
    completed_elsewhere: ("skillrun show", WORKED),
    failed: ("skillrun resume", WORKED),
    failed_elsewhere: ("skillrun resume", WORKED),
    failed_on_an_overloaded_provider: ("skillrun resume", WORKED),
    failed_on_time: ("skillrun resume", WORKED),
    resumed_by_path_from_another_project: ("skillrun resume", WORKED),
    budget_spent: ("skillrun resume", WORKED),
    tokens_spent: ("skillrun resume", WORKED),
    name_taken: ("skillrun resume", WORKED),
    name_taken_elsewhere: ("skillrun resume", WORKED),
    same_words_again: ("skillrun resume", WORKED),
    already_completed: ("skillrun show", WORKED),
    already_completed_elsewhere: ("skillrun show", WORKED),
    changed_since: ("skillrun resume", WORKED),
    changed_elsewhere: ("skillrun resume", WORKED),
    waits_for_a_form: ("skillrun resume", WORKED),
    waits_for_an_answer: ("skillrun resume", WORKED),
    waits_at_a_breaker: ("skillrun resume", WORKED),
    unknown_run: ("skillrun runs", WORKED),
    unknown_run_shown: ("skillrun runs", WORKED),
    unknown_flag: ("skillrun greeting --help", WORKED),
    wrong_input: ("skillrun greeting --help", WORKED),
    broken_file_found_by_the_doctor: ("skillrun validate", SHOWS),
    broken_workflow_in_the_list: ("skillrun validate", SHOWS),
    of_an_old_schema: ("skillrun resume", WORKED),
    untrusted: ("skillrun trust", SHOWS),
    come_from_elsewhere: ("skillrun resume", WORKED),
}


@pytest.fixture
def scene(project: Make, skillrun: Call, monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(project("greeting"), skillrun, monkeypatch)


def typed(done: Done) -> list[list[str]]:
    """The commands that a message names, as a shell would read them."""
    return [shlex.split(found)[1:] for found in dict.fromkeys(COMMAND.findall(" ".join((done.out + done.err).split())))]


@pytest.mark.slow
@pytest.mark.finding("FM1", "FL7", "FL16", "FL17")
@pytest.mark.parametrize("told", SCENES, ids=lambda told: told.__name__)
def test_a_command_that_a_message_names_works_when_it_is_typed(told: Callable[..., Done], scene: Scene) -> None:
    expected, codes = SCENES[told]
    done: Any = told(scene)
    commands = typed(done)
    for line, name in ANSWERS.findall(" ".join(done.out.split())):  # what it says to write is written
        scene.write({name: line})
    if (scene.folder / "script.yaml").exists():  # and what is wrong is mended
        scene.write({"script.yaml": "[]"})
    assert any(shlex.join(["skillrun", *words]).startswith(expected) for words in commands), done.out + done.err
    for words in commands:
        again = scene.skillrun(*words)
        assert again.code in codes, (words, again.out + again.err)
        assert "Traceback" not in again.out + again.err


def test_the_next_command_has_the_script_that_the_run_was_given(scene: Scene) -> None:
    scene.write({"my script.yaml": FAILING.replace("KIND", "invalid_request")})
    done = scene.run("--name", "run", "--script", "my script.yaml")
    assert typed(done)[-1] == ["resume", "run", "--unattended", "--script", "my script.yaml"], done.out


def test_the_next_command_repeats_what_the_run_was_given(scene: Scene) -> None:
    scene.write(
        {
            name: text.replace("FORM", ", default: \"{{ 'The lake' if run.round > 9 }}\"")
            for name, text in ASKING.items()
        }
    )
    scene.write({"my answers.yaml": "{}\n"})
    given = ("--unattended", "--answers", "my answers.yaml")
    done = scene.skillrun("trip", "--model", "scripted:x", "--name", "run", *given)
    assert "into 'my answers.yaml' and type" in done.out
    assert "or leave `--unattended` out in a terminal" in done.out
    assert typed(done)[-1] == ["resume", "run", "--unattended", "--answers", "my answers.yaml"], done.out
    done = scene.skillrun("resume", "run")
    assert typed(done)[-2:] == [["resume", "run", "--answers", "answers.yaml"], ["resume", "run"]], done.out
    spent = scene.run("--name", "spent", "--budget", "calls=0", "--answers", "my answers.yaml")
    assert typed(spent)[-1][:5] == ["resume", "spent", "--unattended", "--answers", "my answers.yaml"], spent.out
    assert typed(spent)[-1][5] == "--budget"


def killed(scene: Scene) -> None:
    """A run that was started with a script and `--unattended`, and whose process was killed."""
    scene.failing()
    state = scene.folder / "runs" / "run" / "state.md"
    text = state.read_text()
    assert "\nstatus: failed\n" in text
    state.write_text(text.replace("\nstatus: failed\n", "\nstatus: running\n"))
    scene.write({"script.yaml": '[{address: "greeting/draft/words/*", text: Hello from the script.}]'})


def test_a_killed_run_shows_the_command_that_resumes_it_as_it_was_started(scene: Scene) -> None:
    killed(scene)
    shown = scene.skillrun("show", "run")
    assert shown.out.startswith("run · greeting · interrupted")
    command = "skillrun resume run --unattended --script script.yaml"
    assert shown.out.splitlines()[-1] == f"next: resume with `{command}`"
    assert scene.skillrun("show", "run", "--json").json["next"] == f"resume with `{command}`"
    assert scene.skillrun(*shlex.split(command)[1:]).code == 0
    assert (scene.folder / "runs" / "run" / "greeting.md").read_text() == "Hello from the script.\n"
    assert scene.skillrun("show", "run", "--json").json["next"] == ""


def test_the_command_names_a_script_of_another_folder_by_its_whole_path(scene: Scene) -> None:
    killed(scene)
    scene.patch.chdir(scene.folder / "skills")
    assert scene.skillrun("show", "run").out.endswith(f" --script {scene.folder / 'script.yaml'}`\n")


def test_a_run_that_is_resumed_without_its_script_says_which_command_has_it(scene: Scene) -> None:
    killed(scene)
    done = scene.skillrun("resume", "run", "--unattended")
    assert done.code == 0
    assert "warning: the run was started with `--script script.yaml`: now, replies are generated" in done.err
    assert "hint: `skillrun resume run --unattended --script script.yaml` uses the script" in done.err


def test_a_run_that_waits_for_answers_shows_the_command_that_answers(scene: Scene) -> None:
    scene.write({name: text.replace("FORM", "") for name, text in ASKING.items()})
    assert scene.skillrun("trip", "--name", "trip").code == 75
    assert scene.skillrun("show", "trip").out.splitlines()[-1] == "next: answer with `skillrun answers trip`"


def test_a_run_of_an_older_skillrun_that_recorded_no_flags_shows_the_plain_command(scene: Scene) -> None:
    killed(scene)
    transcript = scene.folder / "runs" / "run" / ".run" / "transcript.ndjson"
    transcript.write_text(re.sub(r', "flags": \{[^}]*\}', "", transcript.read_text()))
    assert scene.skillrun("show", "run").out.splitlines()[-1] == "next: resume with `skillrun resume run`"
