"""Hot reload through the command line: a run, an edit, a broken file and another edit."""

import re
from collections.abc import Callable
from subprocess import PIPE, STDOUT, Popen
from typing import Any

import pytest

from tests.launcher import start_skillrun
from tests.servers import openai
from tests.servers.wire import serve

Call = Callable[..., Any]
SCRIPTED = ("--model", "scripted:default")


def start_dev(*arguments: str) -> Popen[str]:
    """`skillrun dev greeting Ada`, with all output in one pipe."""
    streams = {"stdout": PIPE, "stderr": STDOUT, "text": True}
    return start_skillrun("dev", "greeting", "Ada", *arguments, unbuffered=True, **streams)


def read_turn(run: Popen[str]) -> list[str]:
    """The output lines up to the next `watching` line."""
    assert run.stdout is not None
    lines: list[str] = []
    for line in run.stdout:
        if line.startswith("watching"):
            return lines
        lines.append(line.rstrip("\n"))
    raise AssertionError(lines)


@pytest.mark.row("X3")
@pytest.mark.finding("FP12")
def test_a_save_repeats_affected_calls_and_a_broken_file_changes_nothing(project: Call) -> None:
    folder = project("greeting")
    draft, send = (folder / "skills" / "greeting" / f"{name}.md" for name in ("draft", "send"))
    cost_step = '- {say: "About {{ run.estimate.calls | default(0) }} calls."}'
    text = send.read_text().replace("steps:\n", f"steps:\n  {cost_step}\n", 1)
    send.write_text(text)
    with start_dev(*SCRIPTED) as run:
        try:
            first = read_turn(run)
            assert first[0] == f"starting dev-greeting in {folder / 'runs' / 'dev-greeting'}"
            assert [line[:9] for line in first if "completed" in line].count("completed") == 1
            assert "send: About 2 calls." in first
            assert first[-1].endswith("calls: 0 reused, 2 made; 2 artifacts changed")
            send.write_text(text.replace("To ", "For ").replace("About", "Around"))
            edited = read_turn(run)
            assert "send: Around 2 calls." in edited
            assert edited[-1].endswith("calls: 2 reused, 0 made; 1 artifact changed")
            assert "  +For Ada:" in edited
            send.write_text(text.replace("phases.draft", "phases.draff"))
            broken = read_turn(run)
            assert broken[-2] == "still using the last valid version; fix the file and save it"
            assert "Nothing was run" not in "\n".join(broken)
            draft.write_text(draft.read_text().replace("Greet ", "Kindly greet "))
            send.write_text(text)
            fixed = read_turn(run)
            assert "calling greeting/draft/words/writer/1.1" in fixed
            assert "changed: greeting.md" in fixed
            workflow = folder / "workflows" / "greeting.md"
            workflow_text = workflow.read_text()
            workflow.unlink()  # as an editor does that replaces the file on saving
            removed = read_turn(run)
            assert removed[-3:-1] == ["error: there is no workflow `greeting`", broken[-2]]
            workflow.write_text(workflow_text)
            last = read_turn(run)
            assert last[-1].endswith("calls: 2 reused, 0 made; 0 artifacts changed")
            assert "send: About 2 calls." not in last, "the previous turn printed it"
        finally:
            run.terminate()


@pytest.mark.slow
@pytest.mark.finding("FM10")
def test_dev_ends_when_the_run_is_lost(project: Call) -> None:
    folder = project("greeting")
    with start_dev(*SCRIPTED) as run:
        read_turn(run)
        state = (folder / "runs" / "dev-greeting" / "state.md").read_text()
        (folder / "runs" / "dev-greeting" / ".run" / "lock").unlink()
        send = folder / "skills" / "greeting" / "send.md"
        send.write_text(send.read_text().replace("To ", "For "))
        output = run.communicate()[0]
    assert (run.returncode, "lock was removed or replaced" in output, "Traceback" in output) == (1, True, False), output
    assert (folder / "runs" / "dev-greeting" / "state.md").read_text() == state


@pytest.mark.slow
@pytest.mark.row("Z2")
@pytest.mark.allow_hosts(["127.0.0.1"])
def test_a_save_of_models_yaml_redirects_calls_but_an_untrusted_provider_gets_none(
    project: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project("greeting")
    (folder / "config").mkdir()
    models, draft = folder / "config" / "models.yaml", folder / "skills" / "greeting" / "draft.md"
    writer = folder / "roles" / "writer.md"
    monkeypatch.setenv("MY_API_KEY", "A1b2C3d4E5f6G7h8")
    with serve([openai.completion()]) as old, serve([openai.completion()]) as new:

        def providers(x: str, y: str = "", key: str = "") -> None:
            urls = {name: url for name, url in {"x": x, "y": y}.items() if url}
            lines = [f'  {name}: {{kind: openai, base_url: "{url}/v1"{key}}}\n' for name, url in urls.items()]
            models.write_text(f'providers:\n{"".join(lines)}tiers: {{strong: "x:m", fast: "x:m"}}\n')

        providers(old.url)
        with start_dev() as run:
            try:
                assert read_turn(run)[-1].startswith("completed")
                old_count = len(old.asked)
                providers(new.url)
                read_turn(run)
                draft.write_text(draft.read_text().replace("Greet ", "Kindly greet "))
                assert read_turn(run)[-1].startswith("completed")
                assert (len(old.asked), len(new.asked) > 0) == (old_count, True), "another address"
                new_count = len(new.asked)
                providers(new.url, old.url)
                read_turn(run)
                writer.write_text(writer.read_text().replace("model: fast", "model: y:m"))
                assert read_turn(run)[-1].startswith("completed")
                assert (len(old.asked) > old_count, len(new.asked)) == (True, new_count), "another provider"
                old_count = len(old.asked)
                providers(new.url, old.url, ", key: MY_API_KEY")
                read_turn(run)
                draft.write_text(draft.read_text().replace("Kindly greet ", "Gladly greet "))
                refused = "\n".join(read_turn(run))
                assert "nothing is sent to y at" in refused
                assert "`skillrun trust` to review what this project requests" in refused
                assert (len(old.asked), len(new.asked)) == (old_count, new_count)
            finally:
                run.terminate()


@pytest.mark.slow
@pytest.mark.row("X3")
def test_rerun_repeats_the_selected_phases(project: Call) -> None:
    project("greeting")
    summaries = []
    for more in ((), ("--rerun", "send"), ("--rerun", "draft+"), ()):
        with start_dev(*SCRIPTED, *more) as run:
            try:
                summaries.append(read_turn(run)[-1].split("; ", 1)[1])
            finally:
                run.terminate()
    assert summaries == [
        "calls: 0 reused, 2 made; 2 artifacts changed",
        "calls: 2 reused, 0 made; 0 artifacts changed",
        "calls: 0 reused, 2 made; 0 artifacts changed",
        "calls: 2 reused, 0 made; 0 artifacts changed",
    ]


def test_a_new_session_uses_the_models_of_its_flags_and_of_the_project(
    project: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project("greeting")
    writer = folder / "roles" / "writer.md"
    writer.write_text(writer.read_text().replace("model: fast", "model: strong"))

    def session(*arguments: str) -> tuple[str, str, str]:
        """The models of the tiers `strong` and `fast` as printed, and how many calls were reused and made."""
        with start_dev(*arguments) as run:
            try:
                lines = read_turn(run)
            finally:
                run.terminate()
        (line,) = (line for line in lines if line.startswith("models: "))
        models = dict(each.split(" = ") for each in line.removeprefix("models: ").split(", "))
        return models["strong"], models["fast"], lines[-1].split("; ")[1].removeprefix("calls: ")

    assert session(*SCRIPTED) == ("scripted:default", "scripted:default", "0 reused, 2 made")
    assert session(*SCRIPTED) == ("scripted:default", "scripted:default", "2 reused, 0 made")
    monkeypatch.setenv("SKILLRUN_MODEL", "scripted:b")
    assert session() == ("scripted:b", "scripted:b", "0 reused, 2 made")
    monkeypatch.delenv("SKILLRUN_MODEL")
    (folder / "config").mkdir()
    (folder / "config" / "models.yaml").write_text("tiers: {strong: scripted:b, fast: scripted:c}\n")
    assert session() == ("scripted:b", "scripted:c", "1 reused, 1 made")


def test_a_save_of_models_yaml_moves_the_calls_whose_model_it_changes(project: Call) -> None:
    folder = project("greeting")
    (folder / "config").mkdir()
    models = folder / "config" / "models.yaml"
    models.write_text("tiers: {strong: scripted:a, fast: scripted:a}\n")
    with start_dev() as run:
        try:
            read_turn(run)
            models.write_text("tiers: {strong: scripted:a, fast: scripted:b}\n")
            edited = read_turn(run)
        finally:
            run.terminate()
    assert "models: strong = scripted:a, critic = scripted:a, fast = scripted:b" in edited
    assert "0 reused, 2 made" in edited[-1]


@pytest.mark.finding("FD8")
def test_invalid_prepared_answers_at_a_save_are_reported_and_the_next_save_continues(project: Call) -> None:
    folder = project("greeting")
    draft, answers = folder / "skills" / "greeting" / "draft.md", folder / "answers.yaml"
    answers.write_text("ok: 'yes'\n")
    with start_dev(*SCRIPTED, "--answers", "answers.yaml") as run:
        try:
            read_turn(run)
            answers.write_text("ok: 'yes'\nok: 'no'\n")
            draft.write_text(draft.read_text().replace("Greet ", "Kindly greet "))
            broken = read_turn(run)
            answers.write_text("ok: 'yes'\n")
            draft.write_text(draft.read_text().replace("Kindly greet ", "Gladly greet "))
            fixed = read_turn(run)
        finally:
            run.terminate()
    assert any("is given twice" in line for line in broken), broken
    assert broken[-1] == "still using the last valid version; fix the file and save it"
    assert fixed[-1].startswith("completed")


@pytest.mark.finding("FD3")
def test_a_run_from_another_source_is_used_after_a_warning(project: Call) -> None:
    """The finished run in docs/ is such a run for each reader."""
    folder = project("greeting")

    def first_turn() -> list[str]:
        with start_dev(*SCRIPTED) as run:
            try:
                return read_turn(run)
            finally:
                run.terminate()

    assert not any("another source" in line for line in first_turn())
    assert not any("another source" in line for line in first_turn()), "it is a run of this user"
    greeting = folder / "runs" / "dev-greeting" / "greeting.md"
    text = greeting.read_text()
    state = folder / "runs" / "dev-greeting" / "state.md"
    state.write_text(re.sub(r"(?m)^seal: .*$", "seal: forged", state.read_text()))
    lines = first_turn()
    assert lines[0].startswith("warning: this run is from another source"), lines
    assert lines[0].endswith(f"its replies and answers are used: {greeting.parent}")
    assert "2 reused, 0 made" in lines[-1]
    assert greeting.read_text() == text, "its files are not written over"


def test_an_unknown_workflow_is_refused(project: Call, skillrun: Call) -> None:
    project("greeting")
    done = skillrun("dev", "greting", "Ada")
    assert (done.code, done.err) == (2, "error: there is no workflow `greting`\nhint: did you mean `greeting`?\n")


def test_an_unknown_phase_to_rerun_is_refused(project: Call, skillrun: Call) -> None:
    project("greeting")
    done = skillrun("dev", "greeting", "Ada", "--rerun", "drafft")
    assert (done.code, done.err.splitlines()[1]) == (2, "hint: did you mean `draft`?")
