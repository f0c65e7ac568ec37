"""The figures that are counted in judged plans, each for a plan with and a plan without the counted item."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import judged
from bench.judged_arms import Arm, Code, read
from bench.judged_counts import CRITERIA, Count, count

REQUEST = "Keys have at most 200 bytes, a slot ends after 3600 seconds. `unique_key=` names it; `f(1, 2)` is a call."
PLAN = """# Plan: unique tasks

## Acceptance criteria

- AC-1: a key of 201 bytes is refused (see D-7).
- AC-2: a slot ends after 3,600 seconds.
- AC-3: nothing else changes.

## Test plan

| T-1 | AC-1 | `unique_key` of 200 and of 201 bytes |
| T-2 | AC-2 | one second after 3600 |

## Tasks

### Task 1: Keys
- Files: create `app/slots.py`; change `app/api.py:2` and `app/api.py:99`, `app/lost.py`, in a `try/finally`
- Consumes: `enqueue(task)`, `json.dumps`, `nowhere(x)`. Produces: `take_slot(key: str) -> bool`
- Serves: AC-1, AC-3

### Task 2: Ends
- Consumes: `take_slot(key)`
- Done when: errors are handled as appropriate; for now without a clock. T-2 passes, as UTF-8.
"""


@pytest.fixture
def code(tmp_path: Path) -> Code:
    (tmp_path / "src" / "app").mkdir(parents=True)
    (tmp_path / "src" / "app" / "api.py").write_text("def enqueue(task):\n    pass\n")
    return Code.of(tmp_path)


def count_by_name(text: str, request: str = REQUEST, code: Code | None = None) -> dict[str, Count]:
    return {figure.name: figure for figure in count(Arm("a", {"plan.md": text}), request, code, CRITERIA)}


def test_the_parts_of_a_plan_are_found_by_their_headings() -> None:
    parts = Arm("a", {"plan.md": PLAN}).parts
    assert parts["rest"].startswith("# Plan: unique tasks")
    assert parts["tests"].split("\n")[0] == "## Test plan"
    assert "### Task 2: Ends" in parts["tasks"]
    assert "AC-1: a key" not in parts["tests"] + parts["tasks"]
    several = Arm(
        "a", {"test-plan.md": "# Cases\n## Errors\nT-1", "tasks.md": "first\n## TASK-1: Tests\nx", "spec.md": "s"}
    )
    assert several.parts == {
        "rest": "s",
        "tests": "# Cases\n## Errors\nT-1",
        "tasks": "first\n## TASK-1: Tests\nx",
    }
    fenced = Arm("a", {"plan.md": "```\n# Tasks\n```\nno task"})
    assert fenced.parts["tasks"] == ""


def test_paths_are_also_found_without_their_first_folders(code: Code) -> None:
    figures = count_by_name(PLAN, code=code)
    assert figures["paths that are there"].shown == "1"
    assert figures["paths said to be new"].details == ("app/slots.py (plan.md:17)",)
    assert figures["paths that are neither"].details == ("app/lost.py (plan.md:17)",)
    assert figures["places past a file's end"] == Count("places past a file's end", "1 of 2", ("app/api.py:99",))
    assert code.has("src/app/")
    assert code.has("app/*.py")
    assert not code.has("pp/api.py")
    assert count_by_name(PLAN)["paths that are there"].shown == ""


def test_limits_and_names_of_the_request_are_looked_for_in_tests_and_tasks() -> None:
    figures = count_by_name(PLAN)
    assert figures["limits of the request in tests or tasks"].shown == "2 of 2"
    assert figures["names of the request in tests or tasks"].shown == "1 of 1"
    figures_of_vague_plan = count_by_name(PLAN.replace("3600", "an hour").replace("T-1", "unique"))
    assert figures_of_vague_plan["limits of the request anywhere"].shown == "2 of 2"
    assert figures_of_vague_plan["limits of the request in tests or tasks"].details == ("3600 seconds",)
    assert count_by_name(PLAN, "Add a command.")["limits of the request anywhere"].shown == ""


def test_criteria_are_linked_to_cases_and_tasks_in_either_direction() -> None:
    figures = count_by_name(PLAN)
    assert (figures["criteria with a case"].shown, figures["criteria with a case"].details) == ("2 of 3", ("AC-3",))
    assert figures["criteria with a task"].details == ("AC-2",)
    assert figures["criteria with both"].shown == "1 of 3"
    linked_plan = PLAN.replace("nothing else changes", "nothing else changes (T-2)")
    assert count_by_name(linked_plan)["criteria with a case"].shown == "3 of 3"
    assert count_by_name("# Plan\nNo criteria.")["criteria with a case"].shown == ""


def test_undefined_ids_are_counted_unless_the_request_names_them() -> None:
    assert count_by_name(PLAN)["ids that lead nowhere"].details == ("D-7 (plan.md:5)",)
    short = "- R1: a\n- R2: b, as R9 and H1 say\n"
    assert count_by_name(short)["ids that lead nowhere"].details == ("R9 (plan.md:2)",)
    assert count_by_name(short, "What of R9?")["ids that lead nowhere"].shown == "0"


def test_names_that_a_task_consumes_are_produced_or_exist(code: Code) -> None:
    figures = count_by_name(PLAN, code=code)
    assert figures["names consumed"].shown == "4"
    assert figures["of these produced nowhere"].details == ("nowhere",)
    assert count_by_name("# Tasks\n\n## Task 1\nWork.", code=code)["of these produced nowhere"].shown == ""


def test_words_of_the_request_are_not_counted_against_a_plan() -> None:
    figures = count_by_name(PLAN)
    assert figures["placeholder words"].details == ("appropriate (plan.md:23)",)
    assert figures["words that shrink the scope"].details == ("for now (plan.md:23)",)
    assert count_by_name(PLAN, "Enough for now.")["words that shrink the scope"].shown == "0"
    assert figures["words"].shown == f"{len(PLAN.split())}"


def test_the_table_has_a_column_for_each_arm(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "plan.md").write_text(PLAN)
    (tmp_path / "one" / "request.md").write_text(REQUEST)
    (tmp_path / "two.md").write_text("# Plan\n\nTBD\n")
    request = tmp_path / "one" / "request.md"
    assert list(read(str(tmp_path / "one")).documents) == ["plan.md"]
    assert judged.main([str(tmp_path / "one"), f"B={tmp_path / 'two.md'}", "--request", str(request), "--details"]) == 0
    printed = capsys.readouterr().out
    rows = {line.split("|")[1].strip(): line.split("|")[2:-1] for line in printed.splitlines() if line.startswith("|")}
    assert [cell.strip() for cell in rows[""]] == ["one", "B"]
    assert [cell.strip() for cell in rows["criteria with both"]] == ["1 of 3", "–"]
    assert "\n## B\n" in printed
    assert "\nplaceholder words:\n- TBD (two.md:3)\n" in printed
    assert judged.main([str(tmp_path / "nowhere")]) == 2
    assert "there is no markdown document" in capsys.readouterr().err
