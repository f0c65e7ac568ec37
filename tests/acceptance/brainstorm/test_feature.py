"""feature: its input, its documents, the checks by code, and unattended runs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.acceptance.brainstorm.conftest import ASKING, NEXT, PAYS, Rule, Scene
from tests.acceptance.plan.test_windows import set_window

UNFINISHED = "is no finished brainstorm"
DOCUMENTS = ["01-brainstorming.md", "02-requirements.md", "03-research.md", "04-design.md", "05-tasks.md", "summary.md"]
RECORD = {"summary": "Done.", "key_decisions": [], "open_questions": [], "risks_identified": []}
REQUIREMENTS = """# Requirements

## Requirements

### FR-1: It says who has a tool

- AC-1: given a tool that is out, when a user looks, then it says who has it

### FR-2: It says until when

- AC-2: given a tool that is out, when a user looks, then it says until when
"""
DESIGN = "# Design\n\n## Structure\n\n- `list.py` serves FR-1 and FR-2.\n\nAC-1 and AC-2 have tests.\n"
TASKS = "# Tasks\n\n## TASK-1: The list\n\n- Serves: FR-1, FR-2, AC-1, AC-2\n- Needs: nothing\n"


def happy_path(**texts: str) -> list[Rule]:
    """Replies that cause no rework; keywords replace texts of the drafts."""
    found = {"requirements": REQUIREMENTS, "research": "# Research\n", "design": DESIGN, "tasks": TASKS, **texts}
    return [
        {"address": "feature/brainstorming/sketch/*", "text": "## Who and when\n\nNeighbours.", "record": {}},
        {"address": "feature/requirements/draft/*", "text": found["requirements"], "record": RECORD},
        {"address": "feature/research/findings/*", "text": found["research"], "record": RECORD},
        {"address": "feature/design/draft/*", "text": found["design"], "record": RECORD},
        {"address": "feature/design/attack/*", "data": {"findings": []}},
        {"address": "feature/tasks/draft/*", "text": found["tasks"]},
        {"address": "feature/tasks/walk/*", "data": {"stops": []}},
        *ASKING,
    ]


@pytest.mark.slow
@pytest.mark.row("B11")
def test_a_feature_uses_the_answers_of_a_brainstorm_and_refers_to_it(scene: Scene) -> None:
    scene.brainstorm(questions=["It depends", "", "A list", "summarise now"])
    requirements = REQUIREMENTS + "\n## Open questions\n\n- How long may one keep a tool? (B-1) Assumed: a day.\n"
    done = scene.feature("--from-brainstorm", "tools", "--unattended", rules=happy_path(requirements=requirements))
    assert done.code == 0, done.out + done.err
    assert [one for one in DOCUMENTS if (scene.folder / one).is_file()] == DOCUMENTS
    pointer = scene.text("01-brainstorming.md")
    assert "seeded from the brainstorm `tools`" in pointer
    assert "`tools/00-brainstorming.md`" in pointer
    (prompt,) = scene.prompts("feature/requirements/draft/*")
    assert prompt.index("<untrusted") < prompt.index(PAYS) < prompt.index("It depends")
    assert "- B-1: How long may one keep a tool?" in prompt
    assert "B-1" in pointer
    assert [address.split("/")[1] for address, _ in scene.calls] == [
        "requirements", "research", "design", "design", "design", "tasks", "tasks",
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.row("B11", "B12")
def test_an_unusable_brainstorm_ends_the_run_before_any_call(scene: Scene, tmp_path: Path) -> None:
    scene.brainstorm(questions="Yes", more="summarise")
    good, runs = scene.folder, scene.project / "runs"

    def variant(name: str, old: str, new: str) -> None:
        shutil.copytree(good, runs / name)
        path = runs / name / "00-brainstorming.context.md"
        path.write_text(path.read_text().replace(old, new))

    variant("newer", "schema_version: 1", "schema_version: 2")
    variant("malformed", "agents_n: 3", "agents_n: many")
    variant("no-yaml", "---\n", "")
    variant("unfinished", "x", "x")
    (runs / "unfinished" / ".brainstorm-complete").unlink()
    variant("artifact-link", "x", "x")
    secret = tmp_path / "secret.md"
    secret.write_text("CANARY")
    (runs / "artifact-link" / "00-brainstorming.context.md").unlink()
    (runs / "artifact-link" / "00-brainstorming.context.md").symlink_to(secret)
    shutil.copytree(good, tmp_path / "elsewhere")
    (runs / "slug-link").symlink_to(tmp_path / "elsewhere")
    for name, words in {
        "nope": f"`nope` {UNFINISHED}",
        "unfinished": f"`unfinished` {UNFINISHED}",
        "newer": "is of a newer version than 1",
        "malformed": "`agents_n` is `many`; expected a whole number",
        "no-yaml": "00-brainstorming.context.md",
        "artifact-link": "has no `00-brainstorming.context.md` that can be read",
        "slug-link": UNFINISHED,
    }.items():
        done = scene.feature("--from-brainstorm", name, "--unattended", rules=happy_path(), name=f"from-{name}")
        assert (done.code, words in done.out, "CANARY" in done.out) == (1, True, False), (name, done.out, done.err)
        assert not scene.calls, name
        assert not (scene.folder / "02-requirements.md").exists()
    for slug in ("../tools", "Tools", "a/b", "-x", "x" * 65, ".."):
        done = scene.call("feature", "A list", f"--from-brainstorm={slug}", "--model", "scripted:x")
        assert (done.code, "expected at most 64 lowercase letters" in done.err) == (2, True), slug


@pytest.mark.row("B12")
def test_the_runs_folder_must_be_inside_the_project(scene: Scene, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (scene.project / "runs").symlink_to(tmp_path / "elsewhere")
    for words in (("brainstorm", "x"), ("brainstorm", "--resume", "x"), ("feature", "x", "--from-brainstorm", "y")):
        done = scene.call(*words)
        assert (done.code, "is a link to outside the project" in done.err) == (2, True), done.err
    assert not list((tmp_path / "elsewhere").iterdir())


@pytest.mark.slow
@pytest.mark.row("B11", "B2")
def test_a_deep_brainstorm_runs_inside_the_feature(scene: Scene) -> None:
    done = scene.call("feature", "A list", "--deep-brainstorm", "--unattended", "--model", "scripted:x")
    assert (done.code, "brainstorming/deep/questioning" in done.err) == (1, True)
    flags = ("--deep-brainstorm", "--rounds", "2", "--agents", "1")
    done = scene.feature(*flags, rules=happy_path(), questions=["It depends", "summarise now"])
    assert done.code == 0, done.out + done.err
    assert [one for one in DOCUMENTS if (scene.folder / one).is_file()] == DOCUMENTS
    context = scene.front("01-brainstorming.context.md")
    assert (context["source_path"], context["agents_n"]) == ("01-brainstorming.md", 1)
    assert "It depends" in scene.prompts("feature/requirements/draft/*")[0]
    assert not scene.prompts("*/sketch/*")
    assert next(iter(scene.front("state.md")["inputs"])) == "request", "the state of the outer run is unchanged"
    done = scene.feature("--deep-brainstorm", "--from-brainstorm", "tools", rules=happy_path(), name="both")
    assert (done.code, "type one of them" in done.out) == (1, True)


@pytest.mark.slow
@pytest.mark.row("B11", "B2", "X6")
def test_without_a_brainstorm_it_sketches_and_asks_decisive_questions(scene: Scene) -> None:
    sketch = {
        "address": "feature/brainstorming/sketch/*",
        "text": "## Who and when\n\nNeighbours.",
        "record": {"decisive": [{"text": "For whom?", "choices": ["All", "Members"]}, {"text": NEXT}]},
    }
    open_question = {**RECORD, "open_questions": [
        {"id": "REQ-1", "question": "For how long?", "priority": "HIGH", "candidates": ["A day"]},
        {"id": "REQ-2", "question": "In which colour?", "priority": "LOW"},
    ]}  # fmt: skip
    draft = {"address": "feature/requirements/draft/*", "text": REQUIREMENTS, "record": open_question}
    decided = {
        "id": "REQ-3",
        "decision": "For a week.",
        "rationale": "Said.",
        "confidence": "HIGH",
        "resolves": ["REQ-1"],
    }
    new_record = {
        **RECORD,
        "key_decisions": [decided],
        "open_questions": open_question["open_questions"][1:],
        "answers": [{"id": "P-1", "done": "changed", "how": "FR-1."}],
    }
    rewrite = {"address": "feature/requirements/revision/*", "text": REQUIREMENTS, "record": new_record}
    rules = [sketch, draft, rewrite, *happy_path()]
    done = scene.feature("--unattended", rules=rules)
    assert done.code == 0, done.out + done.err
    assert "**For whom?**\n\nNo answer." in scene.text("01-brainstorming.md")
    points = scene.prompts("feature/requirements/revision/*")[0]
    assert "B-1 is still open, but the requirements do not mention it" in points
    assert "- B-1: For whom?" in scene.text("summary.md"), "the author wrongly claims that it is handled"
    done = scene.feature(rules=rules, name="asked", asked_1="Members", asked_2="Two streets", REQ_1="A week")
    assert done.code == 0, done.out + done.err
    assert "Members" in scene.prompts("feature/requirements/draft/*")[0]
    (points,) = scene.prompts("feature/requirements/revision/*")
    assert 'The person has decided REQ-1, "For how long?": A week.' in points
    assert "A week" in scene.prompts("feature/research/findings/*")[0], "it is settled before later phases use it"
    assert "For a week." not in scene.text("summary.md"), "the user's decision is listed once"
    assert "By the person: For how long? A week" in scene.text("summary.md")
    assert "REQ-1" not in scene.text("summary.md").partition("## Open")[2]
    assert "In which colour?" in scene.text("summary.md")


@pytest.mark.slow
@pytest.mark.row("B11", "Q2", "Q3")
def test_findings_of_code_and_reviewers_go_to_the_author_once(scene: Scene) -> None:
    (scene.project / "src").mkdir()
    (scene.project / "src" / "list.py").write_text("LIST = []\n")
    rewrite = {"summary": "Fixed.", "key_decisions": [], "open_questions": [], "risks_identified": []}
    rules = [
        {"address": "feature/design/attack/simplicity-reviewer/*", "data": {"findings": [
            {"finding": "The list is never cleared.", "evidence": "FR-2", "weight": "MAJOR"},
            {"finding": "The name is long.", "evidence": "Structure", "weight": "MINOR"},
        ]}},
        {"address": "feature/tasks/walk/*", "data": {"stops": [
            {"stop": "TASK-1 takes what nothing gives.", "evidence": "TASK-1"},
        ]}},
        {"address": "feature/*/revision/*", "text": "# Fixed\n", "record": {**rewrite, "answers": [
            {"id": "P-1", "done": "kept", "how": "It is wanted so."},
        ]}},
        *happy_path(
            requirements=REQUIREMENTS.replace("- AC-2: given", "Given") + "\nIt is user-friendly.\n",
            research="# Research\n\nIt is in `src/list.py` and `src/gone.py`.\n",
            design=DESIGN.replace(" and FR-2", "").replace("AC-2", "AC-7"),
            tasks=TASKS.replace("AC-2", "AC-9") + "\n- Files: `src/none.py`, new `src/fresh.py`\n",
        ),
    ]  # fmt: skip
    done = scene.feature("--repo", ".", "--unattended", rules=rules)
    assert done.code == 0, done.out + done.err

    def points(phase: str) -> str:
        return scene.prompts(f"feature/{phase}/revision/*")[0]

    assert "FR-2 has no criterion" in points("requirements")
    assert "user-friendly" in points("requirements")
    assert "src/gone.py" in points("research")
    for words in ("AC-7 is cited", "The list is never cleared."):
        assert words in points("design")
    assert points("design").index("The list is never") < points("design").index("The name is long.")
    assert "TASK-1 takes what nothing gives." in points("tasks")
    assert "`src/none.py` does not exist" in points("tasks")
    assert "src/fresh.py` does not exist" not in points("tasks")
    assert scene.text("02-requirements.md") == "# Fixed\n"
    summary = scene.text("summary.md")
    assert "Kept, because: It is wanted so." in summary
    assert "Minor remarks" not in summary, "they went to the author with the others"


@pytest.mark.row("B11", "Q2", "Q3")
@pytest.mark.parametrize("tasks", [TASKS, TASKS.replace("Serves: ", "Serves: DEC-1, ")])
def test_a_user_decision_before_the_design_must_be_in_a_task(scene: Scene, tasks: str) -> None:
    question = {"id": "RES-1", "question": "On the phones?", "priority": "HIGH"}
    decision = {
        "id": "DEC-1",
        "decision": "On paper.",
        "rationale": "Said.",
        "confidence": "HIGH",
        "resolves": ["RES-1"],
    }
    design = DESIGN + "\n| id | decision |\n| --- | --- |\n| DEC-1 | On paper. |\n"
    rules = [
        {"address": "feature/research/*", "text": "# Research\n", "record": {**RECORD, "open_questions": [question]}},
        {"address": "feature/design/draft/*", "text": design, "record": {**RECORD, "key_decisions": [decision]}},
        *happy_path(tasks=tasks),
    ]
    done = scene.feature("--unattended", rules=rules, RES_1="No")
    assert done.code == 0, done.out + done.err
    points = "".join(scene.prompts("feature/tasks/revision/*"))
    missing = "The person decided DEC-1, but no task includes it: On paper."
    assert (missing in points) == (tasks == TASKS)


@pytest.mark.row("B11", "Q2", "Q7")
def test_minor_remarks_alone_cause_no_call(scene: Scene) -> None:
    slight = {"finding": "The name is long.", "evidence": "Structure", "weight": "MINOR"}
    rules = [{"address": "feature/design/attack/simplicity-reviewer/*", "data": {"findings": [slight]}}, *happy_path()]
    done = scene.feature("--unattended", rules=rules)
    assert done.code == 0, done.out + done.err
    assert not scene.prompts("feature/*/revision/*")
    assert "The name is long." in scene.text("summary.md").partition("## Minor remarks")[2]


@pytest.mark.row("B11", "Q8")
def test_a_dry_run_estimates_a_feature_from_a_brainstorm(scene: Scene) -> None:
    scene.brainstorm(questions="Yes", more="summarise")
    done = scene.call("feature", "A list", "--from-brainstorm", "tools", "--dry-run", "--json")
    assert done.code == 0, done.out + done.err
    assert "no finished brainstorm" not in done.out + done.err
    assert '"tasks"' in done.out
    done = scene.call("feature", "A list", "--from-brainstorm", "nope", "--dry-run")
    assert f"`nope` {UNFINISHED}" in done.out + done.err


LONG = "\n\n".join(
    f"### FR-{part}: Part {part}\n\n- AC-{part}: given it, then it is\n\n"
    + " ".join(f"Sentence {part}.{at} says what was found and why." for at in range(60))
    for part in range(1, 7)
)


@pytest.mark.slow
@pytest.mark.row("Q1", "X5", "B11")
@pytest.mark.parametrize("window", [4_096, 128_000])
def test_long_documents_fit_any_window(scene: Scene, monkeypatch: pytest.MonkeyPatch, window: int) -> None:
    set_window(monkeypatch, window)
    scene.brainstorm(questions=["It depends " * 300, "summarise now"])
    rules = [{"address": f"feature/{place}/*", "text": LONG} for place in ("*/draft", "*/findings", "*/revision")]
    done = scene.feature("--from-brainstorm", "tools", "--unattended", rules=[*rules, *ASKING])
    assert done.code == 0, done.out + done.err
    summary = scene.text("summaries/tasks.md")
    assert ("left_out" in summary) == (window < 8_192), summary


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.row("B4", "B11")
def test_a_run_completes_on_random_replies(scene: Scene, seed: int) -> None:
    (scene.project / "answers.yaml").write_text(
        "questions: Yes\nmore: keep grilling\nrequirements/asked: Yes\ndesign/asked: Yes\n"
    )
    flags = ("--model", f"scripted:noise-{seed}", "--answers", "answers.yaml", "--unattended", "--rounds", "3")
    done = scene.call("feature", "A list", "--deep-brainstorm", *flags)
    assert done.code == 0, done.out + done.err


def answered(*replies: str) -> dict[str, object]:
    """A record whose points are answered in this order; `kept` has a reason."""
    answers = [
        {"id": f"P-{number}", "done": done, "how": "It is wanted so." if done == "kept" else "Done."}
        for number, done in enumerate(replies, 1)
    ]
    return {**RECORD, "answers": answers}


def open_points(scene: Scene) -> str:
    """The section `Open` of the summary."""
    return scene.text("summary.md").partition("## Open")[2].partition("\n## ")[0]


@pytest.mark.row("B11", "Q3")
@pytest.mark.finding("FT12")
def test_what_the_authors_claim_to_have_changed_is_checked_again(scene: Scene) -> None:
    (scene.project / "src").mkdir()
    (scene.project / "src" / "short.py").write_text("LIST = []\n")
    lost = REQUIREMENTS.replace("- AC-2: given", "Given")
    revisions = {
        "requirements": lost.replace("FR-2:", "FR-3:"),
        "research": "# Research\n\n`src/gone.py` and `src/short.py:40`\n",
        "design": "# Design\n\nFR-1, AC-1 and AC-8, TBD.\n",
        "tasks": TASKS.replace("AC-2", "AC-3") + "\n`src/none.py`, `src/short.py:7-9`\n",
    }
    rules = [
        *(
            {"address": f"feature/{phase}/revision/*", "text": text, "record": answered("changed")}
            for phase, text in revisions.items()
        ),
        *happy_path(
            requirements=lost,
            research="# Research\n\n`src/lost.py`\n",
            design=DESIGN + "\nThe rest is TBD.\n",
            tasks=TASKS.replace("FR-1, FR-2, ", ""),
        ),
    ]
    done = scene.feature("--repo", ".", "--unattended", rules=rules)
    assert done.code == 0, done.out + done.err
    found = open_points(scene)
    for words in (
        "FR-3 has no criterion",
        "The research names `src/gone.py`, which does not exist.",
        "No named part of the design serves FR-3.",
        "AC-8 is cited, and the requirements have no such id.",
        '"TBD" postpones a decision:',
        "No task includes FR-3.",
        "AC-3 is cited, but no document defines it.",
        "`src/none.py` does not exist",
        "`src/short.py` has 1 lines, and the research names line 40.",
        "`src/short.py` has 1 lines, and the tasks name line 9.",
    ):
        assert words in found, words
    assert "src/lost.py" not in found
    assert "Nothing that anybody named" not in scene.text("summary.md")
    assert "findings are open; `summary.md` lists them" in done.out


@pytest.mark.row("B11", "Q3")
@pytest.mark.finding("FT12")
def test_a_document_that_is_mended_leaves_nothing_open(scene: Scene) -> None:
    rules = [
        {"address": "feature/requirements/revision/*", "text": REQUIREMENTS, "record": answered("changed")},
        {"address": "feature/tasks/revision/*", "text": TASKS, "record": answered("changed", "changed")},
        *happy_path(requirements=REQUIREMENTS.replace("- AC-2: given", "Given"), tasks=TASKS.replace("AC-2", "AC-9")),
    ]
    done = scene.feature("--unattended", rules=rules)
    assert done.code == 0, done.out + done.err
    assert open_points(scene).strip() == "Nothing that anybody named."


@pytest.mark.row("B11")
@pytest.mark.finding("FT12", "FT7")
def test_findings_that_have_no_room_or_no_author_are_open(scene: Scene) -> None:
    words = ["lock", "index", "quota", "owner", "token", "cache", "queue", "label", "shelf", "ledger", "badge", "route"]
    stops = [{"stop": f"The {word} has no {word} name.", "evidence": word} for word in words[:6]]
    heavy = [
        {"finding": f"The {word} is never {word}ed.", "evidence": word, "weight": "CRITICAL" if at == 5 else "MAJOR"}
        for at, word in enumerate(words[6:])
    ]
    vague = "".join(f"\nThe {word} is TBD.\n" for word in words)
    rules: list[Rule] = [
        {"address": "feature/tasks/revision/*", "fail": "overloaded"},
        {"address": "feature/design/revision/*", "text": DESIGN, "record": answered(*["changed"] * 12)},
        {"address": "feature/design/attack/simplicity-reviewer/*", "data": {"findings": heavy}},
        {"address": "feature/tasks/walk/*", "data": {"stops": stops}},
        *happy_path(design=DESIGN + vague, tasks=TASKS + vague),
    ]
    done = scene.feature("--unattended", rules=rules)
    assert done.code == 0, done.out + done.err
    (points,) = scene.prompts("feature/design/revision/*")
    assert "The route is never routeed." in points, "CRITICAL comes before what rules find"
    found = open_points(scene)
    assert all(one["finding"] in found for one in heavy[:5]), "12 points have no room for them"
    assert all(one["stop"] in found for one in stops)
    assert found.count('"TBD"') == 12


@pytest.mark.row("B11")
@pytest.mark.finding("FT13")
def test_the_answers_of_a_brainstorm_are_in_the_summary_and_their_numbers_are_checked(scene: Scene) -> None:
    scene.brainstorm(
        questions=[
            {"answer": "The borrower, up to 40 euros", "confidence": "guess"},
            "A list",
            "",
            "Tools\nand ladders",
        ],
        more="summarise",
    )
    requirements = REQUIREMENTS + "\n## Open questions\n\n- How long? (B-1) Assumed: a day.\n"
    corrected = requirements + "\n- AC-3: given damage, then the borrower pays 40 euros\n"
    rules = [
        {"address": "feature/requirements/revision/*", "text": corrected, "record": answered("changed")},
        *happy_path(requirements=requirements, tasks=TASKS + "\nAC-3\n"),
    ]
    done = scene.feature("--from-brainstorm", "tools", "--unattended", rules=rules)
    assert done.code == 0, done.out + done.err
    (rewrite,) = scene.prompts("feature/requirements/revision/*")
    assert "The person said 40 euros, but the requirements do not mention it." in rewrite
    decided = scene.text("summary.md").partition("## Decided")[2].partition("## Open")[0]
    assert f"- By the person: {PAYS} The borrower, up to 40 euros (guess)\n" in decided
    assert "Tools and ladders\n" in decided
    assert f"{PAYS} The borrower, up to 40 euros (guess)" in scene.text("01-brainstorming.md")
    scene.feature(
        "--from-brainstorm", "tools", "--unattended", rules=happy_path(requirements=requirements), name="lost"
    )
    assert "The person said 40 euros, but the requirements do not mention it." in open_points(scene)


@pytest.mark.row("B11")
@pytest.mark.finding("FT13")
def test_a_deep_brainstorm_of_a_feature_starts_another_feature(scene: Scene) -> None:
    flags = ("--deep-brainstorm", "--rounds", "1")
    done = scene.feature(*flags, rules=happy_path(), questions=["Members pay", "summarise now"])
    assert done.code == 0, done.out + done.err
    requirements = REQUIREMENTS + "\n- How long? (B-1)\n"
    done = scene.feature(
        "--from-brainstorm", "feature", "--unattended", rules=happy_path(requirements=requirements), name="second"
    )
    assert done.code == 0, done.out + done.err
    assert "Members pay" in scene.prompts("feature/requirements/draft/*")[0]
    assert "`feature/01-brainstorming.md`" in scene.text("01-brainstorming.md")
    done = scene.feature("--from-brainstorm", "second", "--unattended", rules=happy_path(), name="third")
    assert (done.code, f"`second` {UNFINISHED}" in done.out, "--prefix" in done.out) == (1, True, False)
    scene.run("brainstorm", "Tools", "--name", "seven", "--prefix", "07", "--rounds", "1", questions="Yes")
    done = scene.feature(
        "--from-brainstorm", "seven", "--unattended", rules=happy_path(requirements=requirements), name="fourth"
    )
    assert done.code == 0, done.out + done.err


@pytest.mark.row("B11")
@pytest.mark.finding("FT7")
def test_a_finding_is_sorted_before_it_is_cut_and_a_question_without_room_is_open(scene: Scene) -> None:
    words = ["lock", "index", "quota", "owner", "token", "cache", "queue", "label"]
    found = [{"finding": f"The {word} is {word}ed.", "evidence": word, "weight": "MINOR"} for word in words]
    found.append({"finding": "Everybody reads everything.", "evidence": "FR-1", "weight": "CRITICAL"})
    decisive = [{"text": f"Which {word} is the {word}?"} for word in words[:5]]
    sketch = {"address": "feature/brainstorming/sketch/*", "text": "A list.", "record": {"decisive": decisive}}
    attack = {"address": "feature/design/attack/implementer/*", "data": {"findings": found}}
    open_questions = "\n- B-1, B-2, B-3 and B-4 are assumed.\n"
    rules = [sketch, attack, *happy_path(requirements=REQUIREMENTS + open_questions)]
    done = scene.feature("--unattended", rules=rules)
    assert done.code == 0, done.out + done.err
    points = scene.prompts("feature/design/revision/*")[0].partition("# Current task")[2]
    assert points.index("Everybody reads everything.") < points.index("The lock is locked.")
    (rewrite,) = scene.prompts("feature/requirements/revision/*")
    assert "B-5 is still open, but the requirements do not mention it" in rewrite
    assert "- B-5: Which token is the token?" in open_points(scene)


@pytest.mark.row("B11")
@pytest.mark.finding("FR42")
@pytest.mark.parametrize("phase", ["requirements", "design"])
def test_a_rewrite_without_a_record_keeps_what_was_on_record(scene: Scene, phase: str) -> None:
    text = {"requirements": REQUIREMENTS, "design": DESIGN}[phase]
    decision = {"id": "X-7", "decision": "On paper.", "rationale": "Said.", "confidence": "HIGH"}
    question = {"id": "X-8", "question": "Who keeps it?", "priority": "LOW"}
    record = {**RECORD, "key_decisions": [decision], "open_questions": [question]}
    rules: list[Rule] = [
        {"address": f"feature/{phase}/draft/*", "text": f"{text}\nThe rest is TBD.\n", "record": record},
        {"address": f"feature/{phase}/revision/*", "text": text, "record": False},
        *happy_path(),
    ]
    done = scene.feature("--unattended", rules=rules)
    assert done.code == 0, done.out + done.err
    summary = scene.text("summary.md")
    assert "- X-7 (HIGH): On paper." in summary
    assert "- X-8 (LOW): Who keeps it?" in summary
    assert f"- {phase}: revision: the document of " in summary.partition("## Warnings")[2]
    assert "On paper." in scene.prompts("feature/tasks/draft/*")[0]


@pytest.mark.row("B11")
@pytest.mark.finding("FR43")
@pytest.mark.parametrize(
    ("rule", "warning"),
    [
        ({"address": "feature/design/attack/*", "fail": "timeout"}, "design: No reviewer has checked the design."),
        (
            {"address": "feature/design/attack/implementer/*", "text": ""},
            "design: attack: continued without implementer: the reply is empty",
        ),
        ({"address": "feature/tasks/walk/*", "fail": "auth"}, "tasks: no reviewer has checked the tasks."),
    ],
)
def test_the_summary_says_who_did_not_review(scene: Scene, rule: Rule, warning: str) -> None:
    done = scene.feature("--unattended", rules=[rule, *happy_path()])
    assert done.code == 0, done.out + done.err
    assert f"\n## Warnings\n\n- {warning}\n\n## Documents\n" in scene.text("summary.md")


@pytest.mark.row("B11")
@pytest.mark.finding("FR43")
def test_the_summary_of_a_complete_review_has_no_warnings(scene: Scene) -> None:
    assert scene.feature("--unattended", rules=happy_path()).code == 0
    assert "Warnings" not in scene.text("summary.md")


@pytest.mark.row("B11")
@pytest.mark.finding("FR48")
def test_a_decision_of_several_lines_is_one_line_of_the_summary(scene: Scene) -> None:
    asked = {**RECORD, "open_questions": [{"id": "Q-1", "question": "For how long?", "priority": "HIGH"}]}
    rules = [{"address": "feature/requirements/*", "text": REQUIREMENTS, "record": asked}, *happy_path()]
    done = scene.feature(rules=rules, Q_1="A week\n# or two")
    assert done.code == 0, done.out + done.err
    assert "- By the person: For how long? A week # or two\n" in scene.text("summary.md")


@pytest.mark.row("B11")
@pytest.mark.finding("FR54")
def test_one_answer_of_one_round_is_told_in_the_singular(scene: Scene) -> None:
    scene.brainstorm(questions=["It depends", "summarise now"])
    assert scene.front("summaries/questioning.md")["summary"] == "1 question was answered."
    assert scene.feature("--from-brainstorm", "tools", "--unattended", rules=happy_path()).code == 0
    pointer = " ".join(scene.text("01-brainstorming.md").split())
    assert "held in 1 round: see" in pointer
    assert "1 question was answered. ## Answers" in pointer
