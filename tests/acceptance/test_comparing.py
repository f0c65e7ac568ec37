"""`skillrun test --compare`: two versions of a prompt side by side, on a server that speaks a provider's protocol."""

from __future__ import annotations

import json
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
from tests.servers.wire import Answer, Asked, Wire, serve

pytestmark = [pytest.mark.row("A3"), pytest.mark.allow_hosts(["127.0.0.1"])]

MODELS = """providers: {{local: {{kind: openai, base_url: "{url}/v1", key: "", window: 32000}}}}
tiers: {{strong: "local:m", fast: "local:m", critic: "local:m"}}
models: {{"local:m": {{input: 10, output: 20}}}}
"""
WARM = "---\ninputs: {person: Grace}\nexpect: {artifacts: {welcome.md: {contains: Welcome}}}\n---\n"
TRUST = ("--trust-project", "--compare")


class World:
    """What the server makes of a prompt; `judges` says how two results are scored, as they stand."""

    def __init__(self) -> None:
        self.judges: Callable[[str, str], tuple[int, int]] = lambda first, second: (
            9 if "short" in first else 4,
            9 if "short" in second else 4,
        )
        self.fails_from = 10**9
        self.judged: list[str] = []
        self.asked: list[str] = []
        self._numbers = count(1)

    def answer(self, asked: Asked) -> Answer:
        if asked.path.endswith("/models"):
            return openai.models("m")
        text = json.dumps(asked.body["messages"], ensure_ascii=False)
        if next(self._numbers) >= self.fails_from:
            return openai.error(400, "no more today")
        if "The second result" in text:
            self.judged.append(text)
            first, second = text.split("The first result")[-1].split("The second result")
            scores = self.judges(first, second.split("Somebody asked")[0])
            verdict = {"differences": [], "first": scores[0], "second": scores[1], "reason": "It is so."}
            return openai.completion(json.dumps(verdict))
        self.asked.append(text)
        if "What should a welcome" in text and "key_decisions" not in text:
            ideas = [{"idea": f"The keys, {len(self.asked)}", "why": "It is locked."}]
            return openai.completion(json.dumps({"ideas": ideas}))
        if "key_decisions" in text:
            summary = {"summary": "Keys.", "key_decisions": [], "open_questions": [], "risks_identified": []}
            return openai.completion(json.dumps(summary))
        kind = "short" if "a short welcome" in text else "long"
        return openai.completion(f"Welcome, a {kind} one, number {len(self.asked)}.")


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def wire(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, skillrun: Call) -> Iterator[Wire]:
    """A project in a repository, with two cases and an edited prompt."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    with serve(world.answer) as wire:
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


def compared(skillrun: Call, *more: str, version: str = "HEAD") -> Done:
    done: Done = skillrun("test", "hello", *TRUST, version, "--yes", *more)
    return done


def figures(done: Done) -> Any:
    assert done.code == 0, done.err + done.out
    return done.json


@pytest.mark.slow
def test_the_price_is_said_first_and_nothing_is_asked_without_a_yes(wire: Wire, skillrun: Call, world: World) -> None:
    done = skillrun("test", "hello", *TRUST, "HEAD", "--judge", "judge-pair")
    assert done.code == 2
    assert done.out.startswith(
        "hello: HEAD compared with the working tree, 2 cases, 3 samples of each\ncompared: letter/letter/host\n"
        "makes 24 calls, 12 of them by the judge: about "
    )
    assert "$0." in done.out.splitlines()[2]
    assert "models: local:m\nlocal: http://127.0.0.1" in done.out
    assert "then add `--yes`" in done.err
    assert (world.asked, world.judged) == ([], [])
    assert not Path("runs").exists()


@pytest.mark.slow
def test_why_calls_behind_an_edit_differ_is_said_where_the_case_has_no_reply(wire: Wire, skillrun: Call) -> None:
    edit("a short welcome", "the welcome", "skills/hello/letter.md")
    edit("What should a welcome", "What could a welcome", "skills/hello/ideas.md")
    out = skillrun("test", "hello", *TRUST, "HEAD").out
    assert "note: warm has no reply for ideas/ideas/host:heart, the first call that differs" in out
    assert "note: formal has no reply" not in out
    assert "has no reply for" not in skillrun("test", "hello", *TRUST, "HEAD", "--phase", "ideas").out


@pytest.mark.slow
def test_the_model_of_the_environment_is_the_one_that_is_asked(
    wire: Wire, skillrun: Call, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKILLRUN_MODEL", "scripted:noise-1")
    done = compared(skillrun, "formal", "--samples", "1")
    assert "models: scripted:noise-1" in done.out, done.err
    assert world.asked == []
    done = compared(skillrun, "formal", "--samples", "1", "--model", "local:m")
    assert "models: local:m" in done.out, "what is typed goes before"
    assert skillrun("test", "hello", "formal").code == 0, "a test without a comparison takes no notice"


@pytest.mark.slow
def test_what_the_edit_changed_is_asked_and_judged_blind_in_both_orders(
    wire: Wire, skillrun: Call, world: World
) -> None:
    done = compared(skillrun, "--judge", "judge-pair")
    assert done.code == 0, done.err
    assert len(world.asked) == 12  # the ideas, and what sums them up, are the case's
    assert len(world.judged) == 12
    text = "\n".join(world.judged)
    assert "HEAD" not in text
    assert "working tree" not in text
    for text in world.judged:  # each pair the other way round as well
        first, second = text.split("The first result")[-1].split("The second result")
        assert ("short" in first) != ("short" in second.split("Somebody asked")[0])
    assert (
        sum("short" in text.split("The first result")[-1].split("The second result")[0] for text in world.judged) == 6
    )
    lines = done.out.splitlines()
    table = [line.split() for line in lines if line.startswith(("formal  ", "warm  ", "all  "))]
    assert table[-2][:10] == ["all", "HEAD", "6", "27", "of", "27", "4.0", "±", "0.0", "0"]
    assert table[-1][:11] == ["all", "working", "tree", "6", "27", "of", "27", "9.0", "±", "0.0", "6"]
    assert any(line.startswith("better: HEAD 0, working tree 6, undecided 0") for line in lines)
    assert any(line.startswith("working tree is better in these cases, according to this judge: ") for line in lines)


@pytest.mark.slow
def test_the_files_have_both_results_and_the_order_in_which_they_stood(
    wire: Wire, skillrun: Call, world: World
) -> None:
    told = figures(compared(skillrun, "--judge", "judge-pair", "--json"))
    assert told == {**json.loads(Path(told["files"][1]).read_text()), "files": told["files"]}
    orders = [[look["first"] for look in pair["looks"]] for pair in told["judged"]]
    assert {tuple(sorted(order)) for order in orders} == {("after", "before")}
    assert len({tuple(order) for order in orders}) == 2, "which order comes first is drawn"
    page = Path(told["files"][0]).read_text()
    assert "## warm, sample 2\n\n### HEAD\n\n```\nWelcome, a long one" in page
    assert "shown first: HEAD 4, working tree 9. It is so." in page
    assert compared(skillrun, "--judge", "judge-pair", "--samples", "1").code == 0
    assert Path(told["files"][0]).read_text() == page, "a later comparison has files of its own"


@pytest.mark.slow
def test_nothing_is_asked_twice_and_more_samples_ask_only_what_is_new(wire: Wire, skillrun: Call, world: World) -> None:
    assert compared(skillrun, "--judge", "judge-pair", "--samples", "1").code == 0
    done = skillrun("test", "hello", *TRUST, "HEAD", "--judge", "judge-pair", "--samples", "1")
    assert done.code == 0, "without a price nobody has to say yes"
    assert "makes 0 calls; 8 more already recorded" in done.out
    assert (len(world.asked), len(world.judged)) == (4, 4)
    done = compared(skillrun, "--judge", "judge-pair", "--samples", "2")
    assert "makes 8 calls, 4 of them by the judge; 8 more already recorded" in done.out
    assert (len(world.asked), len(world.judged)) == (8, 8)
    edit("a short welcome", "a short welcome, and a kind one")
    assert compared(skillrun, "--samples", "2").code == 0
    assert len(world.asked) == 12, "the other version is recorded"


@pytest.mark.slow
def test_a_comparison_that_was_cut_goes_on(wire: Wire, skillrun: Call, world: World) -> None:
    world.fails_from = 4
    done = compared(skillrun, "--judge", "judge-pair", "--samples", "1")
    assert "had no result: run the same command to retry the failed calls" in done.out
    assert "no more today" in done.out
    answered = len(world.asked)
    assert answered == 3
    world.fails_from = 10**9
    done = compared(skillrun, "--judge", "judge-pair", "--samples", "1")
    assert len(world.asked) == 4
    assert f"; {answered} more already recorded" in done.out


@pytest.mark.slow
def test_a_judge_whom_the_order_sways_decides_nothing(wire: Wire, skillrun: Call, world: World) -> None:
    world.judges = lambda _first, _second: (9, 2)
    done = compared(skillrun, "--judge", "judge-pair", "--samples", "1")
    assert "better: HEAD 0, working tree 0, undecided 2" in done.out
    assert "in 2 pairs the judge chose the same position in both orders: the order biased it" in done.out
    assert "too few pairs: 0 decided pairs" in done.out


@pytest.mark.slow
def test_who_is_at_a_terminal_is_asked(wire: Wire) -> None:
    command = ("test", "hello", "--compare", "HEAD", "--model", "scripted:noise-1", "--samples", "1", "--trust-project")
    for reply, code, words in (("n", 1, "No calls were made."), ("y", 0, "saved in runs/.compared/hello/1.md")):
        terminal = Terminal(*command)
        shown = terminal.until(r"Make these calls\? \[y/N\]")
        assert "makes 4 calls: about " in shown
        terminal.type(f"{reply}\n")
        assert terminal.end() == code, terminal.seen
        assert words in terminal.seen


@pytest.mark.slow
def test_few_samples_are_said_to_be_too_few_before_and_after(wire: Wire, skillrun: Call) -> None:
    done = compared(skillrun, "formal", "--judge", "judge-pair", "--samples", "2")
    assert "note: 2 pairs cannot show a significant difference" in done.out
    assert "too few pairs: 2 decided pairs, at least 6 are needed" in done.out
    assert "working tree is better" not in done.out


@pytest.mark.slow
def test_prompts_that_are_the_same_are_nothing_to_compare(wire: Wire, skillrun: Call, world: World) -> None:
    edit("Write a short welcome", "Write the welcome")
    done = compared(skillrun)
    assert (done.code, world.asked) == (0, [])
    assert "send the same prompts in these cases: there is nothing to compare" in done.out
    done = compared(skillrun, "--phase", "ideas", "--step", "ideas", "--samples", "1")
    assert done.code == 0
    assert len(world.asked) == 4, "one call for each prompt, which both versions share"


@pytest.mark.slow
def test_whole_runs_ask_every_call(wire: Wire, skillrun: Call, world: World) -> None:
    told = figures(compared(skillrun, "warm", "--whole", "--samples", "1", "--json"))
    assert [sample["status"] for sample in told["samples"]] == ["completed", "completed"]
    assert len(world.asked) == 5, "ideas and their sum, which both versions ask for alike, are asked for once"
    assert [sample["result"][:20] for sample in told["samples"]] == ["Welcome, a long one,", "Welcome, a short one"]


@pytest.mark.slow
def test_a_folder_and_what_ships_are_versions_too(wire: Wire, skillrun: Call, world: World, tmp_path: Path) -> None:
    shutil.copytree("skills", tmp_path / "older" / "skills")
    shutil.copytree("workflows", tmp_path / "older" / "workflows")
    shutil.copytree("roles", tmp_path / "older" / "roles")
    shutil.copytree("config", tmp_path / "older" / "config")
    edit("a short welcome", "a very short welcome")
    done = compared(skillrun, "--samples", "1", version="../older")
    assert "hello: ../older compared with the working tree" in done.out
    assert any("a very short" in text for text in world.asked)
    done = compared(skillrun, version="shipped")
    assert (done.code, "overrides a shipped one" in done.err) == (2, True)
    assert skillrun("eject", "roles/judge.md").code == 0
    assert "send the same prompts" in compared(skillrun, version="shipped").out


@pytest.mark.slow
def test_another_judge_is_a_workflow_of_the_project(wire: Wire, skillrun: Call, world: World) -> None:
    assert compared(skillrun, "--judge", "hello").code == 2
    done = compared(skillrun, "--judge", "hello")
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
    done = compared(skillrun, "--judge", "mine", "--samples", "1")
    assert done.code == 0, done.err
    assert world.judged == [], "a judge may be one that asks nobody"
    assert "better: HEAD 0, working tree 0, undecided 2" in done.out


@pytest.mark.parametrize(
    ("arguments", "words"),
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
def test_what_cannot_be_compared_is_said(wire: Wire, skillrun: Call, arguments: tuple[str, ...], words: str) -> None:
    done = skillrun("test", *arguments, *(["--trust-project"] if "--compare" in arguments else []))
    assert done.code == 2
    assert words in done.err


def test_a_case_that_does_not_fit_the_other_version_is_said(wire: Wire, skillrun: Call, world: World) -> None:
    edit("  tone:", "  mood?: string\n  tone:", "workflows/hello.md")
    edit("person: Grace", "person: Grace, mood: glad", "tests/hello/warm.md")
    done = compared(skillrun)
    assert (done.code, world.asked) == (2, [])
    assert "the cases do not match the version `HEAD`" in done.err
    assert "`hello` has no input `mood`" in done.err


@pytest.mark.slow
def test_of_a_revision_nothing_is_run(wire: Wire, skillrun: Call, tmp_path: Path) -> None:
    """A filter of the repository would be, were its files checked out."""
    Path(".gitattributes").write_text("*.md filter=evil\n")
    git("config", "filter.evil.smudge", f"touch {tmp_path / 'ran'}; cat")
    git("config", "core.fsmonitor", f"touch {tmp_path / 'ran'}")
    assert compared(skillrun, "--samples", "1").code == 0
    assert not (tmp_path / "ran").exists()
