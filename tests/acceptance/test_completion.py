"""Shell completion: the words that skillrun suggests, and the result in real shells."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from skillrun.cli.main import main
from skillrun.cli.registry import COMMANDS, COMPLETION_VARIABLE, OLD_NAMES
from tests.acceptance.conftest import Call, Make

Complete = Callable[..., list[str]]
HOSTILE = ("$(touch hostile)", "`touch hostile`", "a;touch hostile", "it is\nplain,evil", "a*", "--all", "~root", "=ls")


@pytest.fixture
def complete(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Complete:
    """Returns the words that bash completes the last word to."""

    def call(*words: str) -> list[str]:
        monkeypatch.setenv(COMPLETION_VARIABLE, "bash_complete")
        monkeypatch.setenv("COMP_WORDS", "\n".join(("skillrun", *words)))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        capsys.readouterr()
        main([])
        out, err = capsys.readouterr()
        assert err == ""
        return [line.removeprefix("plain,") for line in out.splitlines() if line]

    return call


@pytest.fixture
def runs(project: Make) -> Path:
    """The `runs` folder of a project with two runs, `bob` the newer one, and folders with hostile names."""
    folder = project("greeting") / "runs"
    for number, name in enumerate(("ada", "bob", *HOSTILE)):
        (folder / name).mkdir(parents=True)
        (folder / name / "state.md").write_text("---\nworkflow: greeting\nschema_version: 2\n---\n")
        os.utime(folder / name / "state.md", (number, number))
    (folder / "notes").mkdir()
    (folder / "linked").symlink_to(folder / "ada")
    return folder


@pytest.mark.row("A7")
def test_commands_and_workflows_are_completed(project: Make, complete: Complete) -> None:
    project("greeting")
    assert {"greeting", "plan", *COMMANDS} <= set(complete(""))
    assert not set(complete("")) & OLD_NAMES.keys()
    assert complete("gree") == ["greeting"]
    assert complete("work") == ["worker"]
    assert complete("worker", "") == ["once", "list", "limits"]
    assert complete("store", "p") == ["prune", "pull", "push"]
    assert complete("--v") == ["--version"]
    for command in ("render", "graph", "dev"):
        assert "greeting" in complete(command, "")
        assert "show" not in complete(command, "")
    assert complete("completion", "") == ["bash", "zsh", "fish"]
    assert complete("validate", "--format", "s") == ["sarif"]


@pytest.mark.row("A7")
def test_inputs_are_completed_with_their_values(project: Make, complete: Complete) -> None:
    project("greeting")
    assert complete("greeting", "--to") == ["--tone", "--topics"]
    assert complete("greeting", "--no-") == ["--no-loud"]
    assert complete("greeting", "Ada", "--tone", "") == ["warm", "formal"]
    assert complete("greeting", "--tone", "=", "f") == ["formal"]  # bash splits `--tone=f`
    assert complete("plan", "--mode", "st") == ["standard"]  # its values come from a config
    assert complete("greeting", "Ada", "--script", "") == ["file,"]
    assert complete("greeting", "") == []  # free text


@pytest.mark.row("A7")
def test_an_input_that_is_a_path_is_completed_by_the_shell(project: Make, complete: Complete) -> None:
    path = project("greeting") / "workflows" / "greeting.md"
    path.write_text(path.read_text().replace("  lines?:", "  draft?: path, a first draft\n  lines?:"))
    assert complete("greeting", "--draft", "no") == ["file,no"]


@pytest.mark.row("A7")
def test_runs_are_completed_newest_first(runs: Path, complete: Complete) -> None:
    for command in ("show", "resume", "logs", "sizes", "cancel", "worker once", "store pull", "pull"):
        assert complete(*command.split(), "") == ["bob", "ada"]
        assert complete(*command.split(), "a") == ["ada"]
    assert complete("greeting", "--resume", "") == ["bob", "ada"]
    assert complete("sizes", "ada", "") == ["bob", "ada"]
    assert "--out" in complete("show", "-")
    assert complete("store", "pull", "--o") == ["--out"]
    assert complete("worker", "--f") == complete("worker", "once", "--f") == ["--file-urls"]
    runs.rename(runs.parent / "elsewhere")
    assert complete("show", "") == []
    assert complete("show", "--out", "elsewhere", "") == ["bob", "ada"]


@pytest.mark.row("A7")
def test_phases_are_completed(project: Make, complete: Complete) -> None:
    project("greeting")
    assert complete("render", "greeting", "") == ["draft", "send"]
    assert complete("dev", "greeting", "--rerun", "s") == ["send"]
    assert complete("dev", "greeting", "Ada", "--re") == ["--rerun"]
    assert complete("dev", "greeting", "--tone", "f") == ["formal"]


@pytest.mark.row("A7")
def test_shipped_files_are_completed(project: Make, complete: Complete) -> None:
    project()
    assert complete("eject", "skills/plan/rese") == ["skills/plan/research.md"]
    assert "workflows/plan.md" in complete("eject", "")
    assert complete("eject", "config/") == []  # config files are merged, not copied


@pytest.mark.row("A7")
def test_unknown_or_broken_files_complete_to_nothing(project: Make, complete: Complete) -> None:
    folder = project("greeting")
    assert complete("nothing", "") == []
    assert complete("render", "nothing", "") == []
    (folder / "workflows" / "greeting.md").write_text("---\nname: [\n---\n")
    assert complete("greeting", "--") == []
    assert "greeting" in complete("")
    assert complete("show", "--out", "there-is-none", "") == []


@pytest.mark.row("A7")
def test_a_hostile_file_suggests_no_word_that_a_shell_would_run(project: Make, complete: Complete) -> None:
    folder = project("greeting")
    workflow = folder / "workflows" / "greeting.md"
    (folder / "workflows" / "$(touch hostile).md").write_text(workflow.read_text())
    workflow.write_text(workflow.read_text().replace("[warm, formal]", "[warm, $(touch hostile), 'a b', 'x;y', -r]"))
    assert [word for word in complete("") if "hostile" in word] == []
    assert complete("greeting", "--tone", "") == ["warm"]


@pytest.mark.row("A7")
@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_a_description_stays_on_the_line_of_its_word(
    shell: str, project: Make, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    workflow = project("greeting") / "workflows" / "greeting.md"
    text = workflow.read_text()
    start = text.index("description:")
    hostile = 'description: "one\\n\\e[31mplain\\nevil\\n_, ' + "long " * 60 + '"'
    workflow.write_text(text[:start] + hostile + text[text.index("\n", start) :])
    monkeypatch.setenv(COMPLETION_VARIABLE, f"{shell}_complete")
    monkeypatch.setenv("COMP_WORDS", "skillrun gree")
    monkeypatch.setenv("COMP_CWORD", "1" if shell == "zsh" else "gree")
    main([])
    lines = capsys.readouterr().out.splitlines()
    shortened = f"one plain evil _, {'long ' * 60}"[:70] + "…"
    assert lines == (["plain", "greeting", shortened] if shell == "zsh" else [f"plain,greeting\t{shortened}"])


@pytest.mark.row("A7")
def test_the_phases_and_steps_of_a_run_are_completed(project: Make, skillrun: Call, complete: Complete) -> None:
    project("greeting")
    skillrun("greeting", "Ada", "--name", "ada", "--model", "scripted:default")
    assert complete("show", "ada", "") == ["draft", "send"]
    assert complete("show", "ada", "s") == ["send"]
    assert complete("show", "nobody", "") == []
    assert complete("render", "--run", "") == ["ada"]
    assert complete("render", "--run", "ada", "") == ["draft", "send"]
    assert complete("render", "--run", "ada", "draft", "") == []  # a step
    assert complete("test", "--record", "a") == ["ada"]


@pytest.mark.row("A7")
def test_cases_are_completed(project: Make, complete: Complete) -> None:
    folder = project("greeting") / "tests" / "greeting"
    folder.mkdir(parents=True)
    for name in ("loud", "quiet", "$(touch hostile)"):
        (folder / f"{name}.md").write_text("---\n---\n")
    assert "greeting" in complete("test", "")
    assert complete("test", "greeting", "") == ["loud", "quiet"]
    assert complete("test", "plan", "") == []


@pytest.mark.row("A7")
def test_runs_are_completed_without_heavy_imports(runs: Path) -> None:
    code = (
        "import sys; from skillrun.cli.main import main; main([]); "
        "print([name for name in ('jinja2', 'yaml', 'asyncio', 'jsonschema') if name in sys.modules])"
    )
    environment = {
        **os.environ,
        COMPLETION_VARIABLE: "bash_complete",
        "COMP_WORDS": "skillrun show b",
        "COMP_CWORD": "2",
    }
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["plain,bob", "[]"]


@pytest.fixture
def in_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts `skillrun` on the path of the shells."""
    program = tmp_path / "bin" / "skillrun"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m skillrun "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")


BASH = """
eval "$(skillrun completion bash)"
compopt() { :; }  # no command line is being edited
words() {
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
    $(complete -p skillrun | sed 's/.* -F \\([^ ]*\\) .*/\\1/') skillrun
    printf '%s|' "${COMPREPLY[@]}"; echo
}
words skillrun show ''
words skillrun greeting --tone = f
words skillrun render greeting s
"""


@pytest.mark.slow
@pytest.mark.row("A7")
def test_bash_completes(runs: Path, in_path: None) -> None:
    done = subprocess.run(["bash", "--norc", "-c", BASH], capture_output=True, text=True, check=False)
    assert (done.stdout.splitlines(), done.stderr) == (["bob|ada|", "formal|", "send|"], "")
    assert not any(folder.joinpath("hostile").exists() for folder in (runs, runs.parent))


@pytest.mark.row("A7")
@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_completes(runs: Path, in_path: None) -> None:
    script = 'skillrun completion fish | source; complete -C "skillrun show "; complete -C "skillrun greeting --to"'
    done = subprocess.run(["fish", "--no-config", "-c", script], capture_output=True, text=True, check=True)
    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == ["ada", "bob", "--tone", "--topics"]


@pytest.mark.row("A7")
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script(shell: str, skillrun: Call) -> None:
    done = skillrun("completion", shell)
    assert done.code == 0
    assert f"{COMPLETION_VARIABLE}={shell}_complete" in done.out
    assert f"skillrun completion {shell}" in skillrun("completion", "--help").out


@pytest.mark.row("A7")
def test_another_shell_is_refused(skillrun: Call) -> None:
    done = skillrun("completion", "tcsh")
    assert (done.code, "'bash', 'zsh', 'fish'" in done.err) == (2, True)
    assert skillrun("completion").code == 2
