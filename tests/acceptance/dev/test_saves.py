"""Hot reload through the command line: a run, an edit, a broken file, an edit again."""

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
    """`skillrun dev greeting Ada`, with all that it says in one pipe."""
    streams = {"stdout": PIPE, "stderr": STDOUT, "text": True}
    return start_skillrun("dev", "greeting", "Ada", *arguments, unbuffered=True, **streams)


def told(run: Popen[str]) -> list[str]:
    """The lines up to the one that says that it watches."""
    assert run.stdout is not None
    lines: list[str] = []
    for line in run.stdout:
        if line.startswith("watching"):
            return lines
        lines.append(line.rstrip("\n"))
    raise AssertionError(lines)


@pytest.mark.row("X3")
@pytest.mark.finding("FP12")
def test_a_save_asks_what_it_changed_and_a_broken_file_changes_nothing(project: Call) -> None:
    folder = project("greeting")
    draft, send = (folder / "skills" / "greeting" / f"{name}.md" for name in ("draft", "send"))
    told_cost = '- {say: "About {{ run.estimate.calls | default(0) }} calls."}'
    text = send.read_text().replace("steps:\n", f"steps:\n  {told_cost}\n", 1)
    send.write_text(text)
    with start_dev(*SCRIPTED) as run:
        try:
            first = told(run)
            assert first[0] == f"starting dev-greeting in {folder / 'runs' / 'dev-greeting'}"
            assert [line[:9] for line in first if "completed" in line].count("completed") == 1
            assert "send: About 2 calls." in first
            assert first[-1].endswith("0 reused, 2 asked, 2 artifacts changed")
            send.write_text(text.replace("To ", "For ").replace("About", "Around"))
            edited = told(run)
            assert "send: Around 2 calls." in edited
            assert edited[-1].endswith("2 reused, 0 asked, 1 artifact changed")
            assert "  +For Ada:" in edited
            send.write_text(text.replace("phases.draft", "phases.draff"))
            broken = told(run)
            assert broken[-2] == "still using the last valid version; fix the file and save it"
            assert "Nothing was run" not in "\n".join(broken)
            draft.write_text(draft.read_text().replace("Greet ", "Kindly greet "))
            send.write_text(text)
            mended = told(run)
            assert "asking greeting/draft/words/writer/1.1" in mended
            assert "changed: greeting.md" in mended
            workflow = folder / "workflows" / "greeting.md"
            written = workflow.read_text()
            workflow.unlink()  # as an editor does that writes another file in its place
            gone = told(run)
            assert gone[-3:-1] == ["error: there is no workflow `greeting`", broken[-2]]
            workflow.write_text(written)
            last = told(run)
            assert last[-1].endswith("2 reused, 0 asked, 0 artifacts changed")
            assert "send: About 2 calls." not in last, "it was said in the turn before"
        finally:
            run.terminate()


@pytest.mark.slow
@pytest.mark.finding("FM10")
def test_a_run_that_is_lost_is_not_watched_any_longer(project: Call) -> None:
    folder = project("greeting")
    with start_dev(*SCRIPTED) as run:
        told(run)
        state = (folder / "runs" / "dev-greeting" / "state.md").read_text()
        (folder / "runs" / "dev-greeting" / ".run" / "lock").unlink()
        send = folder / "skills" / "greeting" / "send.md"
        send.write_text(send.read_text().replace("To ", "For "))
        said = run.communicate()[0]
    assert (run.returncode, "lock was removed or exchanged" in said, "Traceback" in said) == (1, True, False), said
    assert (folder / "runs" / "dev-greeting" / "state.md").read_text() == state


@pytest.mark.slow
@pytest.mark.row("Z2")
@pytest.mark.allow_hosts(["127.0.0.1"])
def test_a_save_of_models_yaml_moves_the_calls_and_what_it_makes_untrusted_is_sent_nothing(
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
                assert told(run)[-1].startswith("completed")
                first = len(old.asked)
                providers(new.url)
                told(run)
                draft.write_text(draft.read_text().replace("Greet ", "Kindly greet "))
                assert told(run)[-1].startswith("completed")
                assert (len(old.asked), len(new.asked) > 0) == (first, True), "another address"
                heard = len(new.asked)
                providers(new.url, old.url)
                told(run)
                writer.write_text(writer.read_text().replace("model: fast", "model: y:m"))
                assert told(run)[-1].startswith("completed")
                assert (len(old.asked) > first, len(new.asked)) == (True, heard), "another provider"
                first = len(old.asked)
                providers(new.url, old.url, ", key: MY_API_KEY")
                told(run)
                draft.write_text(draft.read_text().replace("Kindly greet ", "Gladly greet "))
                refused = "\n".join(told(run))
                assert "nothing is sent to y at" in refused
                assert "`skillrun trust` shows what this project wants" in refused
                assert (len(old.asked), len(new.asked)) == (first, heard)
            finally:
                run.terminate()


@pytest.mark.slow
@pytest.mark.row("X3")
def test_a_phase_is_run_again_when_that_is_wanted(project: Call) -> None:
    project("greeting")
    ended = []
    for more in ((), ("--rerun", "send"), ("--rerun", "draft+"), ()):
        with start_dev(*SCRIPTED, *more) as run:
            try:
                ended.append(told(run)[-1].split("; ")[1])
            finally:
                run.terminate()
    assert ended == [
        "0 reused, 2 asked, 2 artifacts changed",
        "2 reused, 0 asked, 0 artifacts changed",
        "0 reused, 2 asked, 0 artifacts changed",
        "2 reused, 0 asked, 0 artifacts changed",
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
                lines = told(run)
            finally:
                run.terminate()
        (line,) = (line for line in lines if line.startswith("models: "))
        models = dict(each.split(" = ") for each in line.removeprefix("models: ").split(", "))
        return models["strong"], models["fast"], lines[-1].split("; ")[1].rpartition(",")[0]

    assert session(*SCRIPTED) == ("scripted:default", "scripted:default", "0 reused, 2 asked")
    assert session(*SCRIPTED) == ("scripted:default", "scripted:default", "2 reused, 0 asked")
    monkeypatch.setenv("SKILLRUN_MODEL", "scripted:b")
    assert session() == ("scripted:b", "scripted:b", "0 reused, 2 asked")
    monkeypatch.delenv("SKILLRUN_MODEL")
    (folder / "config").mkdir()
    (folder / "config" / "models.yaml").write_text("tiers: {strong: scripted:b, fast: scripted:c}\n")
    assert session() == ("scripted:b", "scripted:c", "1 reused, 1 asked")


def test_a_save_of_models_yaml_moves_the_calls_whose_model_it_changes(project: Call) -> None:
    folder = project("greeting")
    (folder / "config").mkdir()
    models = folder / "config" / "models.yaml"
    models.write_text("tiers: {strong: scripted:a, fast: scripted:a}\n")
    with start_dev() as run:
        try:
            told(run)
            models.write_text("tiers: {strong: scripted:a, fast: scripted:b}\n")
            edited = told(run)
        finally:
            run.terminate()
    assert "models: strong = scripted:a, critic = scripted:a, fast = scripted:b" in edited
    assert "0 reused, 2 asked" in edited[-1]


def test_a_workflow_to_watch_has_to_be_there(project: Call, skillrun: Call) -> None:
    project("greeting")
    done = skillrun("dev", "greting", "Ada")
    assert (done.code, done.err) == (2, "error: there is no workflow `greting`\nhint: did you mean `greeting`?\n")


def test_a_phase_to_run_again_has_to_be_there(project: Call, skillrun: Call) -> None:
    project("greeting")
    done = skillrun("dev", "greeting", "Ada", "--rerun", "drafft")
    assert (done.code, done.err.splitlines()[1]) == (2, "hint: did you mean `draft`?")
