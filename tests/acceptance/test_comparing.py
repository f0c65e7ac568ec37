"""`skillrun test --compare`: two versions of a prompt side by side, on a server that speaks a provider's protocol."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import Call, Done
from tests.acceptance.terminal import Terminal
from tests.servers import openai
from tests.servers.wire import Answer, Wire, WireRequest, serve

pytestmark = [pytest.mark.row("A3"), pytest.mark.allow_hosts(["127.0.0.1"])]

MODELS = """providers: {{local: {{kind: openai, base_url: "{url}/v1", key: "", window: 32000}}}}
tiers: {{strong: "local:m", fast: "local:m", critic: "local:m"}}
models: {{"local:m": {{input: 10, output: 20}}}}
"""
WARM = "---\ninputs: {person: Grace}\nexpect: {artifacts: {welcome.md: {contains: Welcome}}}\n---\n"
INSTRUCTIONS = "Somebody asked"  # the judge's, below the two results
TRUST = ("--trust-project", "--compare")


class Model:
    """Replies to the prompts that the server receives; `score` rates two results in the order shown."""

    def __init__(self) -> None:
        self.score: Callable[[str, str], tuple[int, int]] = lambda first, second: (
            9 if "short" in first else 4,
            9 if "short" in second else 4,
        )
        self.fail_from = 10**9
        self.end_of_welcome = ""
        self.pairs: list[str] = []
        self.prompts: list[str] = []
        self._numbers = count(1)

    def reply(self, request: WireRequest) -> Answer:
        if request.path.endswith("/models"):
            return openai.models("m")
        text = json.dumps(request.body["messages"], ensure_ascii=False)
        if next(self._numbers) >= self.fail_from:
            return openai.error(400, "no more today")
        if "The second result" in text:
            self.pairs.append(text)
            first, second = text.split("The first result")[-1].split("The second result")
            scores = self.score(first, second.split(INSTRUCTIONS)[0])
            verdict = {"differences": [], "first": scores[0], "second": scores[1], "reason": "It is so."}
            return openai.completion(json.dumps(verdict))
        self.prompts.append(text)
        if "What should a welcome" in text and "key_decisions" not in text:
            ideas = [{"idea": f"The keys, {len(self.prompts)}", "why": "It is locked."}]
            return openai.completion(json.dumps({"ideas": ideas}))
        if "key_decisions" in text:
            summary = {"summary": "Keys.", "key_decisions": [], "open_questions": [], "risks_identified": []}
            return openai.completion(json.dumps(summary))
        kind = "short" if "a short welcome" in text else "long"
        return openai.completion(f"Welcome, a {kind} one, number {len(self.prompts)}.{self.end_of_welcome}")


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.fixture
def wire(model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, skillrun: Call) -> Iterator[Wire]:
    """A project in a repository, with two cases and an edited prompt."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    with serve(model.reply) as wire:
        assert skillrun("init").code == 0
        (folder / "config" / "models.yaml").write_text(MODELS.format(url=wire.url))
        (folder / "tests" / "hello" / "warm.md").write_text(WARM)
        git("init", "-q", ".")
        git("add", "-A")
        git("-c", "user.email=a@example.org", "-c", "user.name=A", "commit", "-qm", "one")
        edit("Write the welcome", "Write a short welcome")
        yield wire


def git(*arguments: str) -> None:
    subprocess.run(["git", *arguments], check=True)


def edit(before: str, after: str, file: str = "skills/hello/letter.md") -> None:
    path = Path(file)
    assert before in path.read_text()
    path.write_text(path.read_text().replace(before, after))


def compare(skillrun: Call, *more: str, version: str = "HEAD") -> Done:
    done: Done = skillrun("test", "hello", *TRUST, version, "--yes", *more)
    return done


def read_json(done: Done) -> Any:
    assert done.code == 0, done.err + done.out
    return done.json


@pytest.mark.slow
def test_no_call_is_made_before_the_user_confirms_the_cost(wire: Wire, skillrun: Call, model: Model) -> None:
    done = skillrun("test", "hello", *TRUST, "HEAD", "--judge", "judge-pair")
    assert done.code == 2
    assert done.out.startswith(
        "hello: HEAD compared with the working tree, 2 cases, 3 samples of each\ncompared: letter/letter/host\n"
        "makes 24 calls, 12 of them by the judge: about "
    )
    assert "$0." in done.out.splitlines()[2]
    assert "models: local:m\nlocal: http://127.0.0.1" in done.out
    assert "then add `--yes`" in done.err
    assert (model.prompts, model.pairs) == ([], [])
    assert not Path("runs").exists()


@pytest.mark.slow
def test_a_note_names_the_first_changed_call_that_has_no_reply_in_the_case(wire: Wire, skillrun: Call) -> None:
    edit("a short welcome", "the welcome", "skills/hello/letter.md")
    edit("What should a welcome", "What could a welcome", "skills/hello/ideas.md")
    out = skillrun("test", "hello", *TRUST, "HEAD").out
    assert "note: warm has no reply for ideas/ideas/host:heart, the first call that differs" in out
    assert "note: formal has no reply" not in out
    assert "has no reply for" not in skillrun("test", "hello", *TRUST, "HEAD", "--phase", "ideas").out


@pytest.mark.slow
def test_the_model_of_the_environment_is_called(
    wire: Wire, skillrun: Call, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKILLRUN_MODEL", "scripted:noise-1")
    done = compare(skillrun, "formal", "--samples", "1")
    assert "models: scripted:noise-1" in done.out, done.err
    assert model.prompts == []
    done = compare(skillrun, "formal", "--samples", "1", "--model", "local:m")
    assert "models: local:m" in done.out, "the option takes precedence"
    assert skillrun("test", "hello", "formal").code == 0, "a test without a comparison ignores it"


@pytest.mark.slow
def test_changed_prompts_are_sent_and_judged_blind_in_both_orders(wire: Wire, skillrun: Call, model: Model) -> None:
    done = compare(skillrun, "--judge", "judge-pair")
    assert done.code == 0, done.err
    assert len(model.prompts) == 12  # the case has replies for the ideas and their summary
    assert len(model.pairs) == 12
    text = "\n".join(model.pairs)
    assert "HEAD" not in text
    assert "working tree" not in text
    for text in model.pairs:  # each pair in both orders
        first, second = text.split("The first result")[-1].split("The second result")
        assert ("short" in first) != ("short" in second.split(INSTRUCTIONS)[0])
    assert sum("short" in text.split("The first result")[-1].split("The second result")[0] for text in model.pairs) == 6
    lines = done.out.splitlines()
    table = [line.split() for line in lines if line.startswith(("formal  ", "warm  ", "all  "))]
    assert table[-2][:10] == ["all", "HEAD", "6", "27", "of", "27", "4.0", "±", "0.0", "0"]
    assert table[-1][:11] == ["all", "working", "tree", "6", "27", "of", "27", "9.0", "±", "0.0", "6"]
    assert any(line.startswith("better: HEAD 0, working tree 6, undecided 0") for line in lines)
    assert any(line.startswith("working tree is better in these cases, according to this judge: ") for line in lines)


@pytest.mark.slow
def test_the_files_contain_both_results_and_their_order(wire: Wire, skillrun: Call, model: Model) -> None:
    report = read_json(compare(skillrun, "--judge", "judge-pair", "--json"))
    assert report == {**json.loads(Path(report["files"][1]).read_text()), "files": report["files"]}
    orders = [[look["first"] for look in pair["looks"]] for pair in report["judged"]]
    assert {tuple(sorted(order)) for order in orders} == {("after", "before")}
    assert len({tuple(order) for order in orders}) == 2, "the first order is random"
    page = Path(report["files"][0]).read_text()
    assert "## warm, sample 2\n\n### HEAD\n\n```\nWelcome, a long one" in page
    assert "shown first: HEAD 4, working tree 9. It is so." in page
    assert compare(skillrun, "--judge", "judge-pair", "--samples", "1").code == 0
    assert Path(report["files"][0]).read_text() == page, "a later comparison writes new files"


@pytest.mark.slow
def test_no_call_is_repeated_and_more_samples_make_only_new_calls(wire: Wire, skillrun: Call, model: Model) -> None:
    assert compare(skillrun, "--judge", "judge-pair", "--samples", "1").code == 0
    done = skillrun("test", "hello", *TRUST, "HEAD", "--judge", "judge-pair", "--samples", "1")
    assert done.code == 0, "a comparison that costs nothing needs no confirmation"
    assert "makes 0 calls; 8 more already recorded" in done.out
    assert (len(model.prompts), len(model.pairs)) == (4, 4)
    done = compare(skillrun, "--judge", "judge-pair", "--samples", "2")
    assert "makes 8 calls, 4 of them by the judge; 8 more already recorded" in done.out
    assert (len(model.prompts), len(model.pairs)) == (8, 8)
    edit("a short welcome", "a short welcome, and a kind one")
    assert compare(skillrun, "--samples", "2").code == 0
    assert len(model.prompts) == 12, "the other version is recorded"


@pytest.mark.slow
@pytest.mark.finding("FD4")
def test_recorded_replies_of_someone_else_are_not_used(
    wire: Wire, skillrun: Call, model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scope = ("--samples", "1")
    with monkeypatch.context() as other_user:
        other_user.setenv("XDG_DATA_HOME", str(tmp_path / "other-user"))
        model.end_of_welcome = " A planted end."
        read_json(compare(skillrun, *scope, "--json"))
    model.end_of_welcome = ""
    refused = skillrun("test", "hello", *TRUST, "HEAD", *scope)
    assert (refused.code, "makes 4 calls:" in refused.out) == (2, True), "the price includes them"
    done = compare(skillrun, *scope)
    assert "4 of the replies in runs/.compared/hello cannot be verified as yours, and are not used" in done.err
    assert "makes 4 calls:" in done.out
    assert len(model.prompts) == 8
    assert "A planted end" in Path("runs/.compared/hello/1.md").read_text()
    assert "A planted end" not in Path("runs/.compared/hello/2.md").read_text()
    again = compare(skillrun, *scope)
    assert ("makes 0 calls" in again.out, "cannot be verified" in again.err) == (True, False)


@pytest.mark.slow
@pytest.mark.finding("FD4")
def test_a_comparison_without_a_usable_key_says_that_it_is_not_resumed(
    wire: Wire, skillrun: Call, model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "file"))
    for calls in (4, 8):
        done = compare(skillrun, "--samples", "1")
        assert (done.code, "your recorded replies cannot be verified, now or later" in done.err) == (0, True)
        assert len(model.prompts) == calls


@pytest.mark.slow
def test_an_interrupted_comparison_continues(wire: Wire, skillrun: Call, model: Model) -> None:
    model.fail_from = 4
    done = compare(skillrun, "--judge", "judge-pair", "--samples", "1")
    assert "had no result: run the same command to retry the failed calls" in done.out
    assert "no more today" in done.out
    answered = len(model.prompts)
    assert answered == 3
    model.fail_from = 10**9
    done = compare(skillrun, "--judge", "judge-pair", "--samples", "1")
    assert len(model.prompts) == 4
    assert f"; {answered} more already recorded" in done.out


@pytest.mark.slow
@pytest.mark.finding("FX1")
def test_results_that_exceed_the_window_of_the_judge_are_a_warning(wire: Wire, skillrun: Call, model: Model) -> None:
    edit("window: 32000", "window: 6000, max_output: 500", "config/models.yaml")
    model.end_of_welcome = "\n" + "worker ended status=0\n" * 2000
    done = compare(skillrun, "--judge", "judge-pair", "--samples", "1")
    assert re.search(r"warning: the prompt of `\w+` exceeds the window; omitted: .*result: about ", done.err), done
    assert all("worker ended" in pair for pair in model.pairs)


@pytest.mark.slow
def test_a_judge_that_the_order_biases_decides_nothing(wire: Wire, skillrun: Call, model: Model) -> None:
    model.score = lambda _first, _second: (9, 2)
    done = compare(skillrun, "--judge", "judge-pair", "--samples", "1")
    assert "better: HEAD 0, working tree 0, undecided 2" in done.out
    assert "in 2 pairs the order biased the judge: it chose the same position in both orders" in done.out
    assert "too few pairs: 0 decided pairs" in done.out


@pytest.mark.slow
def test_a_user_at_a_terminal_is_asked_for_confirmation(wire: Wire) -> None:
    command = ("test", "hello", "--compare", "HEAD", "--model", "scripted:noise-1", "--samples", "1", "--trust-project")
    for reply, code, message in (("n", 1, "No calls were made."), ("y", 0, "saved in runs/.compared/hello/1.md")):
        terminal = Terminal(*command)
        output = terminal.until(r"Make these calls\? \[y/N\]")
        assert "makes 4 calls: about " in output
        terminal.type(f"{reply}\n")
        assert terminal.end() == code, terminal.seen
        assert message in terminal.seen


@pytest.mark.slow
def test_too_few_samples_are_reported_before_and_after(wire: Wire, skillrun: Call) -> None:
    done = compare(skillrun, "formal", "--judge", "judge-pair", "--samples", "2")
    assert "note: 2 pairs cannot show a significant difference" in done.out
    assert "too few pairs: 2 decided pairs, at least 6 are needed" in done.out
    assert "working tree is better" not in done.out


@pytest.mark.slow
def test_identical_prompts_are_not_compared(wire: Wire, skillrun: Call, model: Model) -> None:
    edit("Write a short welcome", "Write the welcome")
    done = compare(skillrun)
    assert (done.code, model.prompts) == (0, [])
    assert "send the same prompts in these cases: there is nothing to compare" in done.out
    done = compare(skillrun, "--phase", "ideas", "--step", "ideas", "--samples", "1")
    assert done.code == 0
    assert len(model.prompts) == 4, "one call for each prompt, which both versions share"


def set_user_budget(home: Path, **limits: float) -> None:
    config = home / ".config" / "skillrun" / "config" / "skillrun.yaml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(f"budgets: {limits}\n")


@pytest.mark.row("Z7")
@pytest.mark.finding("FS10")
@pytest.mark.parametrize("limits", [{"calls": 3}, {"tokens": 50}, {"price": 0.0001}])
def test_a_comparison_that_exceeds_the_budget_of_the_user_makes_no_call(
    wire: Wire, skillrun: Call, model: Model, home: Path, limits: dict[str, float]
) -> None:
    set_user_budget(home, **limits)
    done = compare(skillrun, "--samples", "1")
    ((name, limit),) = limits.items()
    assert (done.code, model.prompts) == (2, []), done
    assert f"and the budget has {limit:g}" in done.err
    assert f"`--budget {name}=" in done.err


@pytest.mark.slow
@pytest.mark.row("Z7")
@pytest.mark.finding("FS10")
@pytest.mark.parametrize("judge", [(), ("--judge", "judge-pair")])
def test_all_samples_and_the_judge_share_the_budget(
    wire: Wire, skillrun: Call, model: Model, monkeypatch: pytest.MonkeyPatch, judge: tuple[str, ...]
) -> None:
    monkeypatch.setattr("skillrun.extensions.testing.compare._check_budget", lambda *_: None)  # too low an estimate
    calls = 5 if judge else 2
    done = compare(skillrun, "--samples", "1", *judge, "--budget", f"calls={calls}")
    assert (done.code, len(model.prompts) + len(model.pairs)) == (75, calls), done
    assert f"the budget of {calls} calls is spent, so samples are incomplete" in done.err
    done = compare(skillrun, "--samples", "1", *judge)
    assert (done.code, len(model.prompts)) == (0, 4), done


@pytest.mark.slow
def test_whole_runs_make_every_call(wire: Wire, skillrun: Call, model: Model) -> None:
    report = read_json(compare(skillrun, "warm", "--whole", "--samples", "1", "--json"))
    assert [sample["status"] for sample in report["samples"]] == ["completed", "completed"]
    assert len(model.prompts) == 5, "both versions share the calls for the ideas and their summary"
    assert [sample["result"][:20] for sample in report["samples"]] == ["Welcome, a long one,", "Welcome, a short one"]


@pytest.mark.slow
def test_a_folder_and_the_shipped_files_are_versions(wire: Wire, skillrun: Call, model: Model, tmp_path: Path) -> None:
    shutil.copytree("skills", tmp_path / "older" / "skills")
    shutil.copytree("workflows", tmp_path / "older" / "workflows")
    shutil.copytree("roles", tmp_path / "older" / "roles")
    shutil.copytree("config", tmp_path / "older" / "config")
    edit("a short welcome", "a very short welcome")
    done = compare(skillrun, "--samples", "1", version="../older")
    assert "hello: ../older compared with the working tree" in done.out
    assert any("a very short" in text for text in model.prompts)
    done = compare(skillrun, version="shipped")
    assert (done.code, "overrides a shipped one" in done.err) == (2, True)
    assert skillrun("eject", "roles/judge.md").code == 0
    assert "send the same prompts" in compare(skillrun, version="shipped").out


@pytest.mark.slow
def test_a_workflow_of_the_project_can_be_the_judge(wire: Wire, skillrun: Call, model: Model) -> None:
    assert compare(skillrun, "--judge", "hello").code == 2
    done = compare(skillrun, "--judge", "hello")
    assert "`hello` is not a judge: it has no input `task`" in done.err
    shutil.copytree("skills/hello", "skills/mine")
    Path("workflows/mine.md").write_text(
        "---\nname: mine\ninputs: {task: string, first: string, second: string}\n"
        "outputs: {first: '{{ phases.score.outputs.first }}', second: 3}\nphases: {score: }\n---\n"
    )
    shutil.rmtree("skills/mine")
    Path("skills/mine").mkdir()
    Path("skills/mine/score.md").write_text(
        "---\nkind: phase\nsteps:\n  - {id: length, set: {chars: '{{ inputs.first | length }}'}}\n"
        "outputs: {first: '{{ chars }}'}\n---\n"
    )
    done = compare(skillrun, "--judge", "mine", "--samples", "1")
    assert done.code == 0, done.err
    assert model.pairs == [], "a judge may make no calls"
    assert "better: HEAD 0, working tree 0, undecided 2" in done.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--compare", "HEAD"), "`--compare` requires a workflow"),
        (("hello", "--compare", "HAED"), "`HAED` is neither a folder nor a git revision"),
        (("hello", "--compare", "./gone"), "`./gone` is neither a folder"),
        (("hello", "--compare", "runs"), "`runs` is neither a folder nor a git revision"),
        (("hello", "--samples", "2"), "`--samples` requires `--compare`"),
        (("hello", "--compare", "HEAD", "--step", "letter"), "add `--phase PHASE`"),
        (("hello", "--compare", "HEAD", "--whole", "--phase", "letter"), "`--whole` cannot be combined"),
        (("hello", "--compare", "HEAD", "--phase", "lettre"), "these cases make no calls in `lettre`"),
        (("hello", "--compare", "HEAD", "--judge", "judge-piar"), "there is no workflow `judge-piar`"),
        (("hello", "--compare", "HEAD", "--junit", "x.xml"), "`--compare` cannot be combined"),
        (("hello", "--compare", "HEAD", "--model", "lcoal:m"), "lcoal"),
    ],
)
def test_an_invalid_comparison_is_refused(wire: Wire, skillrun: Call, arguments: tuple[str, ...], message: str) -> None:
    done = skillrun("test", *arguments, *(["--trust-project"] if "--compare" in arguments else []))
    assert done.code == 2
    assert message in done.err


def test_a_case_that_does_not_match_the_other_version_is_reported(wire: Wire, skillrun: Call, model: Model) -> None:
    edit("  tone:", "  mood?: string\n  tone:", "workflows/hello.md")
    edit("person: Grace", "person: Grace, mood: glad", "tests/hello/warm.md")
    done = compare(skillrun)
    assert (done.code, model.prompts) == (2, [])
    assert "the cases do not match the version `HEAD`" in done.err
    assert "`hello` has no input `mood`" in done.err


@pytest.mark.slow
def test_no_code_of_a_revision_runs(wire: Wire, skillrun: Call, tmp_path: Path) -> None:
    """A checkout would run the filters of the repository."""
    Path(".gitattributes").write_text("*.md filter=evil\n")
    git("config", "filter.evil.smudge", f"touch {tmp_path / 'ran'}; cat")
    git("config", "core.fsmonitor", f"touch {tmp_path / 'ran'}")
    assert compare(skillrun, "--samples", "1").code == 0
    assert not (tmp_path / "ran").exists()


@pytest.mark.finding("FS13")
def test_a_revision_with_a_missing_file_is_refused(wire: Wire, skillrun: Call) -> None:
    found = subprocess.run(["git", "rev-parse", "HEAD:workflows/hello.md"], check=True, capture_output=True, text=True)
    sha = found.stdout.strip()
    Path(".git/objects", sha[:2], sha[2:]).unlink()
    done = compare(skillrun)
    assert (done.code, f"`HEAD` cannot be read: the blob {sha} is missing" in done.err) == (2, True)


@pytest.fixture
def private(wire: Wire, tmp_path: Path) -> Path:
    """Another repository of the user, with a version of the workflow and a worktree."""
    shutil.copytree(".", tmp_path / "private")
    git("-C", str(tmp_path / "private"), "worktree", "add", "-q", "../private-tree")
    return tmp_path / "private"


@pytest.mark.slow
@pytest.mark.finding("FD8")
@pytest.mark.parametrize("kind", ["file", "link", "worktree", "common folder"])
def test_a_git_folder_of_another_repository_is_refused(private: Path, skillrun: Call, kind: str) -> None:
    shutil.rmtree(".git")
    if kind == "link":
        Path(".git").symlink_to(private / ".git")
    elif kind == "common folder":
        Path(".git").mkdir()
        Path(".git/HEAD").write_text("ref: refs/heads/master\n")
        Path(".git/commondir").write_text(f"{private / '.git'}\n")
        Path(".git/gitdir").write_text(f"{Path('.git').absolute()}\n")
    else:
        target = private / ".git" / ("worktrees/private-tree" if kind == "worktree" else "")
        Path(".git").write_text(f"gitdir: {target}\n")
    done = compare(skillrun, "--samples", "1")
    assert (done.code, "which is not that of this folder" in done.err) == (2, True), done


@pytest.mark.slow
@pytest.mark.finding("FD8")
def test_worktrees_and_submodules_are_compared(
    private: Path, skillrun: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    identity = ("-c", "user.email=a@example.org", "-c", "user.name=A", "-c", "protocol.file.allow=always")
    git("init", "-q", str(tmp_path / "outer"))
    git(*identity, "-C", str(tmp_path / "outer"), "submodule", "--quiet", "add", str(private), "inner")
    for folder in (tmp_path / "private-tree", tmp_path / "outer" / "inner"):
        monkeypatch.chdir(folder)
        edit("Write the welcome", "Write a short welcome")
        assert compare(skillrun, "--samples", "1").code == 0
