"""`skillrun test`: cases of workflows on the scripted model, and reports of failed and broken cases."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

Call = Callable[..., Any]
TOP = Path(__file__).parents[2]
_FILE = re.compile(r"^```\w+ file=(\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)

SAFETY = "review/reading/review/reviewer:safety/1.1"
REPLIES = """replies:
  - {address: "*/reviewer:safety/*", data: {findings: [{title: No lock, severity: BLOCKING}]}}
  - {address: "*/reviewer:clarity/*", data: {findings: []}}
"""


@pytest.fixture
def review(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """The project of the how-to page about reviews, with the given cases."""

    def make(**cases: str) -> Path:
        folder = tmp_path / "project"
        files = dict(_FILE.findall((TOP / "docs" / "how-to" / "review.md").read_text(encoding="utf-8")))
        files |= {f"tests/review/{name}.md": f"---\n{text}---\n" for name, text in cases.items()}
        for name, text in {**files, "change.py": "x = 1\n"}.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
        monkeypatch.chdir(folder)
        return folder

    return make


def case(expect: str, more: str = "", inputs: str = "{change: change.py, strict: true}") -> str:
    return f"inputs: {inputs}\n{REPLIES}{more}expect:\n  outcome: failed\n{expect}"


def misses(done: Any) -> list[tuple[str, list[str]]]:
    """The messages and differences of the failed expectations of the only case."""
    [result] = done.json["cases"]
    return [(miss["message"], miss["difference"]) for miss in result["misses"]]


@pytest.mark.row("A3")
def test_the_testing_page_shows_the_actual_output(review: Call, skillrun: Call) -> None:
    folder, page = review(), (TOP / "docs" / "testing.md").read_text(encoding="utf-8")
    [(name, text)] = _FILE.findall(page)
    (folder / name).parent.mkdir(parents=True)
    (folder / name).write_text(text)
    passed_output, failed_output, _ = _CONSOLE.findall(page)
    done = skillrun("test")
    assert done.code == 0, done.out
    figures = re.compile(r"\d+\.\d+")  # seconds, and dollars by today's prices
    assert figures.sub("…", done.out) == passed_output.removeprefix("$ skillrun test\n")
    (folder / name).write_text(text.replace("what can be abused", "what can be harmed"))
    done = skillrun("test", "review", "blocked")
    assert (done.code, done.out.split("\n\n")[0] + "\n") == (1, failed_output)


@pytest.mark.row("A3")
def test_a_passing_case_needs_no_key_and_creates_no_files(review: Call, skillrun: Call) -> None:
    folder = review(blocked=case("  path: [reading]\n"))
    before = sorted(folder.rglob("*"))
    assert skillrun("test").code == 0
    assert sorted(folder.rglob("*")) == before


@pytest.mark.row("A3")
@pytest.mark.parametrize(
    ("expect", "message", "difference"),
    [
        ("  path: [reading, verdict]\n", "the run took a different path", ["-verdict"]),
        ("  artifacts: {findings.md: {contains: No lokc}}\n", "`findings.md` does not contain `No lokc`", ["-No lokc"]),
        (
            "  artifacts: {findings.md: {lacks: No lock}}\n",
            "contains `No lock`, but must not",
            ["+- BLOCKING: No lock"],
        ),
        ("  artifacts: {findings.md: {matches: '^- MINOR'}}\n", "`findings.md` has no match for", []),
        (
            "  artifacts: {findings.md: {equals: kept/findings.md}}\n",
            "`findings.md` differs from kept/findings.md",
            ["-- MINOR"],
        ),
        ("  artifacts: {findings.md: false}\n", "`findings.md` was written, but is not expected", []),
        ("  artifacts: [verdict.md]\n", "`verdict.md` was not written", []),
        ("  calls: 3\n", "calls made: 2; expected: 3", [SAFETY]),
        ("  calls: {'*:safety/*': {at_least: 2}}\n", "calls made at `*:safety/*`: 1; expected: at least 2", [SAFETY]),
        ("  price: 0.0001\n", "expected at most $0.0001", []),
        ("  flags: {reading: {degraded: true}}\n", "`reading` has no summary: the phase has not ended", []),
        (
            "  prompts: {'*:safety/*': {contains: for what can be harmed}}\n",
            f"the prompt at `{SAFETY}` does not contain `for what can be harmed`",
            [
                "+Report what is wrong with the change for what can be abused or lost.",
                f"{' ' * 54}^",
                "@@ line 38 @@ task",
            ],
        ),
        ("  prompts: {'*:safety/*': {contains: zebras in the snow}}\n", "zebras", ["(nothing similar in the text)"]),
        ("  prompts: {'*:safety/*': {lacks: what can be abused}}\n", "contains `what can", ["@@ line 38 @@ task"]),
        ("  prompts: {'*:safety/*': {equals: kept/findings.md}}\n", "differs from", ["@@ -1,2 +1,46 @@ preamble"]),
        ("  prompts: {'*:safety/*': {lacks: abused}}\n", "contains `abused`, but must not", []),
        ("  prompts: {'*:safety/*': {at_most: 20}}\n", "expected at most 20", ["task: 19 tokens"]),
        ("  prompts: {'*:safty/*': {at_most: 20}}\n", "no call matches `*:safty/*`", []),
    ],
)
def test_a_failed_expectation_shows_expected_and_actual_values(
    review: Call, skillrun: Call, expect: str, message: str, difference: list[str]
) -> None:
    folder = review(blocked=case(expect))
    (folder / "tests" / "review" / "kept").mkdir()
    (folder / "tests" / "review" / "kept" / "findings.md").write_text("# Findings\n- MINOR: No lock\n")
    done = skillrun("test", "review", "blocked", "--json")
    assert done.code == 1
    [(text, lines)] = misses(done)
    assert message in text
    assert all(any(line.startswith(part) for line in lines) for part in difference), lines
    assert done.json["cases"][0]["misses"][0]["line"] == 8


AGAIN = """---
kind: phase
steps:
  - {id: verdict, agent: reviewer, output: {good: boolean}}
  - {when: not verdict.data.good, goto: verdict, at_most: 2}
---
## verdict
{% if history %}You have said no {{ history | length }} times. {% endif %}Is the change good?
"""


def rounds(expect: str) -> str:
    """A case of the workflow whose verdict goes back twice."""
    verdict = '  - {address: "*/verdict/verdict/*", data: {good: false}}\n'
    return f"inputs: {{change: change.py}}\n{REPLIES}{verdict}expect:\n{expect}"


@pytest.mark.row("A3")
@pytest.mark.parametrize(
    ("expect", "message"),
    [
        ("  prompts: {round-1/*/verdict/verdict/*: {lacks: You have said no}}\n", ""),
        ("  prompts: {round-2/*/verdict/verdict/*: {contains: said no 1 times}}\n", ""),
        ("  prompts: {round-3/*/verdict/verdict/*: {contains: said no 2 times}}\n", ""),
        ("  prompts: {review/verdict/verdict/*: {contains: Is the change good}}\n", ""),
        ("  calls: {round-1/*/verdict/verdict/*: 1, round-2/*/verdict/verdict/*: 1, '*/verdict/verdict/*': 3}\n", ""),
        (
            "  prompts: {'*/verdict/verdict/*': {lacks: no 2 times}}\n",
            "the prompt at `round-3/review/verdict/verdict/reviewer/1.1` contains `no 2 times`, but must not",
        ),
        ("  prompts: {round-2/*/reading/*: {lacks: x}}\n", "no call matches `round-2/*/reading/*`"),
        (
            "  calls: {'round-2/*/verdict/verdict/*': 2}\n",
            "calls made at `round-2/*/verdict/verdict/*`: 1; expected: 2",
        ),
    ],
)
def test_an_expectation_can_refer_to_one_round(review: Call, skillrun: Call, expect: str, message: str) -> None:
    folder = review(again=rounds(expect))
    (folder / "skills" / "review" / "verdict.md").write_text(AGAIN)
    done = skillrun("test", "review", "again", "--json")
    assert done.code == (1 if message else 0), done.out
    assert [text for text, _ in misses(done)] == ([message] if message else [])


@pytest.mark.slow
@pytest.mark.row("A3")
def test_an_impossible_round_is_an_error(review: Call, skillrun: Call) -> None:
    folder = review(again=rounds("  prompts: {round-4/*: {lacks: x}}\n"))
    (folder / "skills" / "review" / "verdict.md").write_text(AGAIN)
    done = skillrun("validate", "tests/review/again.md")
    assert (done.code, "error[unknown-round]: `review` has no round 4\n" in done.out) == (1, True)
    assert "hint: the last round is 3" in done.out


@pytest.mark.row("A3")
def test_a_failed_run_fails_its_case_without_an_expected_outcome(review: Call, skillrun: Call) -> None:
    review(blocked=f"inputs: {{change: change.py, strict: true}}\n{REPLIES}expect: {{path: [reading]}}\n")
    done = skillrun("test", "--json")
    assert done.code == 1
    assert misses(done) == [("expected the run to be completed, but it is failed: a blocking finding", [])]


@pytest.mark.row("A3")
@pytest.mark.parametrize(
    ("broken", "position", "message"),
    [
        (case("").replace("change:", "chang:"), "2:10", "`review` has no input `chang`"),
        (case("").replace("strict: true", "strict: maybe"), "2:29", "`strict` is `maybe`"),
        (case("").replace("expect:", "expects:"), "6:1", "did you mean `expect`?"),
        (case("  path: [readin]\n"), "8:9", "did you mean `reading`?"),
        (case("  flags: {readin: {a: 1}}\n"), "8:11", "did you mean `reading`?"),
        (case("  artifacts: {a.md: {contain: x}}\n"), "8:22", "did you mean `contains`?"),
        (case("  artifacts: {a.md: {matches: '('}}\n"), "8:31", "is not a regular expression"),
        (case("  artifacts: {a.md: {equals: gone.md}}\n"), "8:30", "gone.md: the file cannot be read"),
        (case("  artifacts: {a.md: {equals: ../../../outside.md}}\n"), "8:30", "leads out of the project"),
        (case("").replace("data:", "datta:", 1), "4:38", "did you mean `data`?"),
        (case("", more="model: scriptd:x\n"), "6:1", "there is no provider `scriptd`"),
        (case("  calls: {'*/review/*': 2, at_least: 3}\n"), "8:38", "`at_least` cannot be combined"),
        (case("  prompts: {'round-2/*': {lacks: x}}\n"), "8:13", "no `goto`, so remove `round-2/`"),
        (case("  calls: {round-0/*: 2}\n"), "8:11", "`review` has no round 0"),
        (case("", more="project: nowhere\n"), "6:1", "the project has no folder"),
        (case("").replace("outcome: failed", "outcome: fail"), "7:12", "did you mean `failed`?"),
    ],
)
def test_a_broken_case_is_reported_with_its_position_and_other_cases_run(
    review: Call, skillrun: Call, broken: str, position: str, message: str
) -> None:
    folder = review(broken=broken, blocked=case(""))
    (folder.parent / "outside.md").write_text("secret")
    done = skillrun("test")
    assert done.code == 2
    assert f"tests/review/broken.md:{position}: error[" in done.out
    assert message in done.out
    assert "review/blocked: passed" in done.out


@pytest.mark.row("A3")
def test_a_case_of_an_unknown_workflow_is_an_error_and_other_files_are_ignored(review: Call, skillrun: Call) -> None:
    folder = review(blocked=case(""))
    for name, text in {"reviw/x.md": "---\nexpect: {calls: 1}\n---\n", "unit/notes.md": "# Notes\n"}.items():
        (folder / "tests" / name).parent.mkdir()
        (folder / "tests" / name).write_text(text)
    done = skillrun("test")
    assert done.code == 2
    assert "tests/reviw/x.md:1:1: error[unknown-workflow]: the folder of this case is named `reviw`" in done.out
    assert "did you mean `review`?" in done.out
    assert "notes" not in done.out


@pytest.mark.row("A3")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("reviw",), "did you mean `review`?"),
        (("review", "blockd"), "did you mean `blocked`?"),
        (("plan",), "`plan` has no cases in tests/plan/"),
    ],
)
def test_unknown_workflows_and_cases_are_reported(
    review: Call, skillrun: Call, arguments: tuple[str, ...], message: str
) -> None:
    review(blocked=case(""))
    done = skillrun("test", *arguments)
    assert done.code == 2
    assert message in done.err


@pytest.mark.row("A3")
def test_a_project_without_cases_gets_instructions(review: Call, skillrun: Call) -> None:
    review()
    done = skillrun("test")
    assert done.code == 2
    assert "tests/ has no cases" in done.err
    assert "write tests/<workflow>/<case>.md" in done.err
    assert "--record RUN" in done.err


@pytest.mark.row("A3")
def test_the_cases_of_a_workflow_with_problems_are_not_run(review: Call, skillrun: Call) -> None:
    folder = review(blocked=case(""))
    phase = folder / "skills" / "review" / "reading.md"
    phase.write_text(phase.read_text().replace("review.data", "review.dat"))
    done = skillrun("test")
    assert done.code == 1
    assert "did you mean `data`?" in done.err
    assert "review/blocked: not run" in done.out


@pytest.mark.row("A3")
def test_prepared_answers_are_used_and_an_unanswered_question_waits(project: Call, skillrun: Call) -> None:
    folder = project("visit")
    (folder / "tests" / "visit").mkdir(parents=True)
    (folder / "tests" / "visit" / "lake.md").write_text(
        "---\nanswers: {where: the lake}\nexpect:\n  path: [choose, plan, check, plan, check]\n"
        "  artifacts: {visit.md: true, round-1/visit.md: true}\n"
        "  prompts: {'visit/plan/steps/*': {contains: the lake}}\n---\n"
    )
    (folder / "tests" / "visit" / "nobody.md").write_text("---\nexpect: {outcome: waiting, path: [choose]}\n---\n")
    done = skillrun("test", "visit")
    assert done.code == 0, done.out


@pytest.mark.row("A3")
def test_unused_replies_and_answers_cause_warnings(review: Call, skillrun: Call) -> None:
    text = case("", more="answers: {size: large}\n").replace("*/reviewer:clarity/*", "*/reviewer:clarty/*")
    review(blocked=text)
    done = skillrun("test")
    assert done.code == 0
    assert "blocked.md:5:5: warning[untaken]: no call used this reply" in done.out
    assert "blocked.md:6:11: warning[untaken]: no question used the answer `size`" in done.out


@pytest.mark.row("A4")
def test_a_reply_that_does_not_match_its_schema_causes_a_warning(review: Call, skillrun: Call) -> None:
    text = case("").replace("severity: BLOCKING", "severity: HUGE")
    review(
        unfit=text, meant=text.replace("data: {findings: [{title", "text: '{findings: [{title").replace("}]}}", "}]}'}")
    )
    out = skillrun("test", "review", "unfit").out
    assert re.search(r"unfit.md:4:5: warning\[unfit\]: this reply does not match the schema of `\S+safety/1.1`:", out)
    assert "reply as `text:`" in out
    assert "[unfit]" not in skillrun("test", "review", "meant").out


@pytest.mark.row("A4")
def test_a_run_that_cannot_start_is_the_only_failure_reported(review: Call, skillrun: Call) -> None:
    folder = review(
        blocked=case("  path: [reading]\n  artifacts: {findings.md: {contains: x}}\n", "answers: {size: a}\n")
    )
    workflow = folder / "workflows" / "review.md"
    limit = "{type: integer 1..2, default: '{{ 4 if inputs.strict else 1 }}'}"
    workflow.write_text(workflow.read_text().replace("\nphases:", f"\nstate:\n  limit: {limit}\nphases:"))
    done = skillrun("test", "--json")
    assert done.code == 1
    [(message, _)] = misses(done)
    assert message.startswith("the run could not start: the state of `review` cannot be set up: `limit` is `4`")
    assert done.json["cases"][0]["problems"] == []


@pytest.mark.row("A4")
def test_the_outcome_is_reported_first(review: Call, skillrun: Call) -> None:
    review(
        blocked=case("  artifacts: {gone.md: {contains: x}}\n")
        .replace("outcome: failed", "")
        .replace("expect:\n  \n", "expect:\n")
    )
    out = skillrun("test").out
    assert out.index("[outcome]") < out.index("was not written")


@pytest.mark.row("A3")
def test_run_metadata_comes_from_the_case_and_local_keys_are_ignored(
    review: Call, skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "true")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-unused")
    folder = review()
    phase = folder / "skills" / "review" / "reading.md"
    strong = "{{ run.models.strong | default('none') }}"
    heading = f"# Findings\n{{{{ run.name }}}}, {{{{ run.started_at }}}}, {{{{ run.environment }}}}, {strong}"
    phase.write_text(phase.read_text().replace("# Findings", heading))
    (folder / "tests" / "review").mkdir(parents=True)
    for name, run, expected in (
        ("plain", "{}", "run, 2026-01-01T00:00:00Z, terminal, anthropic:"),
        ("own", "{name: dark, started_at: today, environment: ci}", "dark, today, ci, anthropic:"),
    ):
        text = case(f"  artifacts: {{findings.md: {{contains: '{expected}'}}}}\n", more=f"run: {run}\n")
        (folder / "tests" / "review" / f"{name}.md").write_text(f"---\n{text}---\n")
    done = skillrun("test")
    assert done.code == 0, done.out


@pytest.mark.row("A3")
def test_a_case_can_provide_the_project_that_the_run_reads(review: Call, skillrun: Call) -> None:
    folder = review()
    (folder / "tests" / "review" / "shelf").mkdir(parents=True)
    (folder / "tests" / "review" / "shelf" / "new.py").write_text("lock.acquire()\n")
    text = case(
        "  prompts: {'*:safety/*': {contains: lock.acquire}}\n", "project: shelf\n", "{change: new.py, strict: true}"
    )
    (folder / "tests" / "review" / "own.md").write_text(f"---\n{text}---\n")
    done = skillrun("test")
    assert done.code == 0, done.out


@pytest.mark.slow
@pytest.mark.row("A3")
def test_parallel_cases_are_reported_in_order(review: Call, process: Call) -> None:
    review(**{f"c{number:02}": case("  calls: 2\n" if number != 7 else "  calls: 3\n") for number in range(12)})
    done = process("test", "--jobs", "3", "--json")
    assert done.code == 1
    assert [result["case"] for result in done.json["cases"]] == [f"c{number:02}" for number in range(12)]
    assert {result["case"] for result in done.json["cases"] if result["status"] == "misses"} == {"c07"}
    assert (done.json["holds"], done.json["misses"]) == (11, 1)


@pytest.mark.row("A3")
def test_a_junit_report_has_the_same_results_and_is_well_formed_for_any_text(review: Call, skillrun: Call) -> None:
    folder = review(
        held=case(""),
        missed=case('  artifacts: {findings.md: {contains: "a<b>]]>\\u0001\\uFFFF&", lacks: No lock}}\n'),
        broken=case("  path: [readin]\n"),
    )
    done = skillrun("test", "--junit", "report.xml")
    assert done.code == 2
    top = ET.fromstring((folder / "report.xml").read_bytes())
    assert (top.tag, top.get("tests"), top.get("failures"), top.get("errors")) == ("testsuites", "3", "1", "1")
    cases = {element.get("name"): element for element in top.iter("testcase")}
    assert {element.get("classname") for element in cases.values()} == {"review"}
    assert list(cases["held"]) == []
    failure = cases["missed"].find("failure")
    assert failure is not None
    assert "a<b>]]>" in str(failure.get("message"))
    assert "(and 1 more)" in str(failure.get("message"))
    assert "+- BLOCKING: No lock" in str(failure.text)
    error = cases["broken"].find("error")
    assert error is not None
    assert "did you mean `reading`?" in str(error.text)
    assert skillrun("test", "--junit", "report.xml").code == 2  # an earlier report is replaced


@pytest.mark.row("A3")
def test_a_junit_report_replaces_only_junit_reports(review: Call, skillrun: Call) -> None:
    folder = review(held=case(""))
    done = skillrun("test", "--junit", "change.py")
    assert (done.code, done.out, (folder / "change.py").read_text()) == (2, "", "x = 1\n")
    assert "change.py exists and is not a test report" in done.err
    assert skillrun("test", "--junit", "nowhere/report.xml").code == 2


@pytest.mark.row("A3")
def test_cases_can_share_a_script_of_replies(review: Call, skillrun: Call) -> None:
    shared = case("  artifacts: {findings.md: {contains: No lock}}\n").replace(REPLIES, "replies: shared/script.yaml\n")
    folder = review(first=shared, gone=shared.replace("script.yaml", "gone.yaml"))
    script = folder / "tests" / "review" / "shared" / "script.yaml"
    script.parent.mkdir()
    script.write_text(REPLIES.removeprefix("replies:\n") + "  - {address: '*', datta: 1}\n")
    done = skillrun("test")
    assert done.code == 2
    assert "tests/review/shared/script.yaml:3:20: error[unknown-key]: unknown key `datta`" in done.out
    assert "tests/review/gone.md:3:10: error[unreadable]: shared/gone.yaml: the file cannot be read" in done.out
    script.write_text(REPLIES.removeprefix("replies:\n") + "  - {address: '*:nowhere/*', data: 1}\n")
    done = skillrun("test", "review", "first")
    assert done.code == 0, done.out
    assert "tests/review/shared/script.yaml:3:5: warning[untaken]" in done.out


@pytest.mark.slow
@pytest.mark.row("A3")
def test_validate_checks_the_cases_too(review: Call, skillrun: Call) -> None:
    review(good=case("  calls: 3\n"), key=case("", "expct: {}\n"), phase=case("  path: [idea]\n"))
    done = skillrun("validate", "--json")
    assert done.code == 1
    problems = {(problem["path"], problem["code"]) for problem in done.json["problems"]}
    assert problems == {("tests/review/key.md", "unknown-key"), ("tests/review/phase.md", "unknown-phase")}
    single = skillrun("validate", "tests/review/phase.md")
    assert (single.code, "`review` has no phase `idea`" in single.out) == (1, True)
    assert "in 1 file" in single.out
    assert skillrun("validate", "tests/review/good.md").code == 0
