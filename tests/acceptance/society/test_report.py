"""The final report; the environment of a run; size limits of prompt files; three protocols at once."""

from __future__ import annotations

import json
from typing import Any

import pytest

from skillrun.scoring.compaction import estimate_tokens
from skillrun.types.samples import sample
from tests.acceptance.society.conftest import MODELS, REQUEST, Rule, Society, item, plan, point, review, skillrun
from tests.servers import anthropic, google, openai
from tests.servers.wire import Answer, WireRequest, serve

CI_NOTE = "Nobody can be asked while this runs"


@pytest.mark.slow
@pytest.mark.row("S9")
def test_the_report_has_modes_models_artifacts_calls_and_prices(society: Society) -> None:
    rules: list[Rule] = [
        {"address": "*/reviews/plan-reviewer@*/*", "data": review("FAIL", item("REVIEW-ada-1")), "times": 3},
        {"address": "*/planning/revised/*", "text": plan(sources="PLAN-bea"), "record": False},
    ]
    assert society.begin("multi-model", "multi-model", rules).code == 0, society.done.err
    front, report = society.front("report.md"), society.text("report.md")
    assert (front["planning_mode"], front["plan_review_mode"], front["rounds"]) == ("multi-model", "multi-model", 2)
    assert front["planning_models"] == [f"planner@{one}" for one in MODELS]
    spent = [(one["part"], one["mode"], one["round"], one["models"], one["calls"]) for one in front["spent"]]
    assert spent == [
        ("drafts", "planning multi-model", 1, 3, 4),
        ("plan", "planning multi-model", 1, 1, 1),
        ("review", "review multi-model", 1, 3, 3),
        ("plan", "planning multi-model", 2, 1, 2),
        ("review", "review multi-model", 2, 3, 3),
    ]
    assert front["calls"] == sum(one["calls"] for one in front["spent"]) == len(society.addresses())
    assert front["tokens"] == sum(one["tokens"] for one in front["spent"])
    assert "| planning multi-model | 7 |" in report
    assert "| review multi-model | 6 |" in report
    for path in ("PLAN-ada", "PLAN-bea", "PLAN-cyn", "PLAN-REVIEW-ada", "PLAN-REVIEW-SYNTHESIS"):
        assert f"- `planning/{path}.md`\n" in report
        assert (society.folder / "planning" / f"{path}.md").is_file()
    assert any(line.startswith("multi-model with 3 models, review multi-model with 3.") for line in society.messages())


@pytest.mark.row("S9")
def test_show_has_the_figures_of_each_phase_and_the_modes_as_flags(society: Society) -> None:
    assert society.begin("multi-model-deep").code == 0, society.done.err
    output: Any = skillrun("show", str(society.folder), "--json").json
    phases = {one["phase"]: one for one in output["phases"]}
    assert phases["drafting"]["usage"]["calls"] == 6
    assert phases["planning"]["flags"]["planning_mode"] == "multi-model-deep"
    assert phases["report"]["flags"]["plan_review_mode"] == "single-model"


@pytest.mark.row("S11")
@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"CI": "true"}, CI_NOTE),
        ({"TERM_PROGRAM": "vscode"}, "so that they can be opened"),
        ({"INSIDE_EMACS": "29.1,comint"}, "so that they can be opened"),
        ({"CI": "false"}, ""),
    ],
)
def test_part_of_each_prompt_depends_on_the_environment(
    society: Society, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], expected: str
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert society.begin(rules=[{"address": "*/review/*", "fail": "budget"}]).code == 1
    for name in environment:
        monkeypatch.delenv(name)
    assert society.resume((), "--unattended").code == 0, society.done.err
    words = {CI_NOTE, "so that they can be opened"}
    for prompt in society.prompts():  # a resumed run keeps its environment
        assert {one for one in words if one in prompt} == ({expected} if expected else set())


@pytest.mark.slow
@pytest.mark.row("S10")
def test_validate_counts_the_tokens_of_each_kind_of_file(society: Society) -> None:
    line = "Some words about nothing in particular. "
    each = estimate_tokens(line * 1000) / 1000
    sizes = {"skills/notes/text.md": (8000, 12000), "roles/talker.md": (5000, 7000)}
    heads = {
        "skills/notes/text.md": "---\nkind: reference\ndescription: Text.\n---\n",
        "roles/talker.md": "---\nname: talker\ndescription: Talks.\n---\n",
    }
    beyond = {"skills/notes/text.md": "error", "roles/talker.md": "warning"}  # a role can come from another tool
    for name, (warn, error) in sizes.items():
        path = society.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        for most, severity in ((warn - 500, ""), (warn + 500, "warning"), (error + 500, beyond[name])):
            path.write_text(heads[name] + line * int(most / each))
            found = [one for one in skillrun("validate", "--json").json["problems"] if one["code"] == "tokens"]
            assert [one["severity"] for one in found] == ([severity] if severity else []), (name, most, found)
        path.unlink()
    config = society.project / "config" / "skillrun.yaml"
    config.parent.mkdir()
    config.write_text("token_lint: {roles: {warn: 10, error: 20}}\n")
    assert skillrun("validate", "--library").code == 1


@pytest.mark.slow
@pytest.mark.row("S2")
@pytest.mark.row("S3")
@pytest.mark.row("S9")
@pytest.mark.row("X5")
@pytest.mark.allow_hosts(["127.0.0.1"])
def test_three_providers_plan_together_over_their_own_protocols(
    society: Society, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Provider lists resolve intents to models; each model drafts, and the author of the base rewrites."""
    points = [point("POINT-1", "gap", "all")]

    def words(schema: dict[str, Any] | None) -> str:
        if schema is None:
            return plan()
        if "base" in schema["properties"]:
            return json.dumps({"why": "It counts.", "base": "PLAN-gemini-3-1-pro-preview", "points": points})
        if "answers" in schema["properties"]:
            return json.dumps({"answers": [{"id": "POINT-1", "done": "changed", "how": "In T-1."}]})
        return json.dumps(review() if "verdict" in schema["properties"] else sample(schema, "x"))

    def answer(asked: WireRequest) -> Answer:
        provider, body = asked.path.split("/")[1], asked.body
        if "models" in asked.path.rpartition("/")[2]:
            lists = {
                "a": anthropic.models("claude-opus-5-5"),
                "o": openai.models("gpt-7-sol"),
                "g": google.models("gemini-3.1-pro-preview"),
            }
            return lists[provider]
        if provider == "a":
            text = words(body.get("output_config", {}).get("format", {}).get("schema"))
            return anthropic.stream(text) if body.get("stream") else anthropic.message(anthropic.text(text))
        if provider == "o":
            return openai.response(openai.output_text(words(body.get("text", {}).get("format", {}).get("schema"))))
        return google.completion(words((body.get("response_format") or {}).get("json_schema", {}).get("schema")))

    with serve(answer) as wire:
        for name, place in (("ANTHROPIC", "a"), ("OPENAI", "o/v1"), ("GEMINI", "g/v1")):
            monkeypatch.setenv(f"{name}_API_KEY", "sk-secret-0123456789")
            monkeypatch.setenv(f"{name}_BASE_URL", f"{wire.url}/{place}")
        modes = ("--planning-mode", "multi-model", "--plan-review-mode", "multi-model")
        society.done = skillrun("implementation-plan", REQUEST, *modes, "--name", "export", "--unattended")
        assert society.done.code == 0, society.done.out + society.done.err
        listed = [asked.path for asked in wire.asked if "models" in asked.path.rpartition("/")[2]]
    assert len(listed) == len(MODELS), "each list is requested once"
    assert "latest Gemini: google:gemini-3.1-pro-preview (newest in google's list of" in society.done.out
    assert society.front("state.md")["models"]["latest GPT"] == "openai:gpt-7-sol"
    assert {name for name in society.files() if not name.startswith(".")} == {
        *(f"PLAN-{name}.md" for name in ("claude-opus-5-5", "gpt-7-sol", "gemini-3-1-pro-preview")),
        *(f"PLAN-REVIEW-{name}.md" for name in ("claude-opus-5-5", "gpt-7-sol", "gemini-3-1-pro-preview", "SYNTHESIS")),
    }
    (address,) = {address.split("/")[-2] for address in society.addresses("planning/rewritten/*")}
    assert address == "planner@google:gemini-3.1-pro-preview"
    spent = society.front("report.md")["spent"]
    assert [one["part"] for one in spent if "price" in one] == ["plan"], "the price of gpt-7-sol is unknown"
    rows = [line for line in society.text("report.md").splitlines() if line.startswith("| plan | planning multi-model")]
    assert rows[0].endswith(f"| {spent[1]['price']:.4f} |")
    planned = len(society.addresses("drafting/*")) + len(society.addresses("planning/*"))
    assert f"| planning multi-model | {planned} |" in society.text("report.md")
    assert "| unknown |" in society.text("report.md")
    assert "price unknown" in " ".join(society.messages())
