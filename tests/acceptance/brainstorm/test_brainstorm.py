"""brainstorm: its questions and their order, how it ends, and its output."""

from __future__ import annotations

import json
import shutil
from typing import Any

import jsonschema
import pytest

from tests.acceptance.brainstorm.conftest import (
    ASKING,
    EDGES,
    NEXT,
    PAYS,
    STORY,
    TECHNICAL,
    TOPIC,
    TWICE,
    UX,
    WHERE,
    WHO,
    Rule,
    Scene,
    inquisitor,
    question,
)

FOUR = ["It depends", {"answer": "The borrower", "confidence": "likely"}, "A list", "The first in line"]
ENTER, ENOUGH, HOW_SURE, CTRL_C, BACK = "\r", "\x07", "\x14", "\x03", "\x1b[Z"


@pytest.mark.row("B3", "B6", "B7", "B8", "B9", "B10")
def test_angles_ask_by_priority_and_the_interviewer_continues(scene: Scene) -> None:
    done = scene.brainstorm(questions=[*FOUR, "Two streets"], more="keep grilling")
    assert done.code == 0, done.out + done.err
    assert scene.pairs() == [
        (1, "ux", PAYS, "It depends"),
        (1, "technical", WHERE, "The borrower"),
        (1, "ux", WHO, "A list"),
        (1, "edge-cases", TWICE, "The first in line"),
        (2, "people", NEXT, "Two streets"),
    ]
    context = scene.context()
    assert {
        key: context[key] for key in ("schema_version", "topic", "rounds_completed", "agents_n", "source_path")
    } == {
        "schema_version": 1,
        "topic": TOPIC,
        "rounds_completed": 2,
        "agents_n": 3,
        "source_path": "00-brainstorming.md",
    }
    assert context["open_questions"] == ["How long may one keep a tool?"]
    assert context["qa_pairs"][1]["confidence"] == "likely"
    assert all(one["asked_at"] >= context["created_at"] for one in context["qa_pairs"])
    jsonschema.validate(context, scene.call("schema", "brainstorm/context", "--json").json)
    assert {member for member, _ in (member_and_turn(one) for one, _ in scene.calls)} >= {UX, TECHNICAL, EDGES}
    (prompt,) = scene.prompts("*/own/*")
    inside = prompt[prompt.index("<untrusted") : prompt.rindex("</untrusted")]
    assert all(answer in inside for answer in ("It depends", "The borrower", "A list", "The first in line"))
    assert "The first in line" in scene.prompts("*/story/*")[0]
    assert "Tools are shared." in scene.text("00-brainstorming.md")
    assert f"**{WHERE}** (technical, round 1, likely)\n\n> The borrower" in scene.text("00-brainstorming.md")
    replies = json.dumps(scene.events("Called") or scene.events("Replied"))
    assert WHO in replies or WHO in scene.text(".run/transcript.ndjson")


def member_and_turn(address: str) -> tuple[str, str]:
    *_, member, turn = address.split("/")
    return member, turn


@pytest.mark.row("B1")
def test_options_outside_their_range_are_rejected(scene: Scene) -> None:
    for flag, value, words in (("rounds", "11", "1 to 10"), ("rounds", "0", "1 to 10"), ("agents", "4", "0 to 3")):
        done = scene.call("brainstorm", TOPIC, f"--{flag}", value)
        assert (done.code, words in done.err) == (2, True), done.err


@pytest.mark.row("B1", "B3")
@pytest.mark.parametrize(("agents", "members"), [(0, []), (1, [UX]), (2, [UX, TECHNICAL])])
def test_fewer_agents_drop_inquisitors_from_the_end(scene: Scene, agents: int, members: list[str]) -> None:
    done = scene.brainstorm("--agents", str(agents), "--rounds", "1", questions="Yes")
    assert done.code == 0, done.err
    assert [one.split("/")[-2] for one, _ in scene.calls if "/inquisitors/" in one] == members
    assert scene.context()["agents_n"] == agents
    assert (NEXT in json.dumps(scene.pairs())) == (not agents)


@pytest.mark.row("B2")
def test_an_unattended_run_without_answers_is_rejected_before_any_call(scene: Scene) -> None:
    done = scene.call("brainstorm", TOPIC, "--unattended", "--model", "scripted:x")
    assert done.code == 1
    assert "asks the user" in done.err
    assert "the run is unattended; nothing was started" in done.err
    assert not (scene.project / "runs").exists()
    done = scene.brainstorm("--unattended", questions="Yes", more="summarise")
    assert done.code == 0


ONE = json.dumps({"questions": [question(PAYS, 1)]})
PARTS = f"First:\n```json\n{ONE}\n```\nMore:\n{json.dumps(question(WHO, 3))}\nand {{"
CUT = json.dumps([question(WHERE), question("", 9)])[:-1]


@pytest.mark.row("B3", "B4")
def test_partial_replies_add_up_and_each_inquisitor_has_a_status(scene: Scene) -> None:
    rules = [
        {"address": f"*/inquisitors/{UX}/*", "text": PARTS},
        {"address": f"*/inquisitors/{TECHNICAL}/*", "text": CUT, "stop": "length"},
        {"address": f"*/inquisitors/{EDGES}/*", "text": "I refuse. {questions: [}"},
        *ASKING,
    ]  # fmt: skip
    scene.brainstorm("--rounds", "1", rules=rules, questions="Yes")
    assert [text for _, _, text, _ in scene.pairs()] == [PAYS, WHERE, WHO]
    summary = scene.front("summaries/questioning.md")
    assert summary["flags"]["inquisitors"] == [
        {"angle": "ux", "status": "success", "questions": 2},
        {"angle": "technical", "status": "success", "questions": 1},
        {"angle": "edge-cases", "status": "parse_error", "questions": 0},
    ]
    assert summary["flags"]["dropped"] == 3
    assert any("cut off" in one for one in summary["quality_warnings"])
    assert len(scene.prompts(f"*/inquisitors/{TECHNICAL}/*")) == 1


@pytest.mark.row("B3", "B5", "B10")
def test_without_questions_of_inquisitors_the_interviewer_asks_alone(scene: Scene) -> None:
    rules = [
        {"address": f"*/inquisitors/{UX}/*", "fail": "timeout"},
        inquisitor(TECHNICAL),
        {"address": f"*/inquisitors/{EDGES}/*", "text": "Not a word of JSON."},
        {"address": "*/rounds#1/own/*", "data": {"questions": [question(WHO, angle="people")]}},
        *ASKING,
    ]
    done = scene.brainstorm(rules=rules, questions=["Anna", "Two streets"], more="keep grilling")
    assert done.code == 0
    assert scene.pairs() == [(1, "people", WHO, "Anna"), (2, "people", NEXT, "Two streets")]
    summary = scene.front("summaries/questioning.md")
    assert [one["status"] for one in summary["flags"]["inquisitors"]] == ["timeout", "empty", "parse_error"]
    assert summary["flags"]["interviewer_alone"] is True
    assert (
        "No inquisitor had a question that could be read (ux: timeout, technical: empty, edge-cases: parse_error)"
        in (done.out)
    )
    assert "Not a word of JSON." in scene.text(".run/transcript.ndjson")
    failing = [{"address": "*/inquisitors/*", "fail": "timeout"}, *ASKING]
    assert scene.brainstorm("--rounds", "1", name="gone", rules=failing, questions="Anna").code == 0
    assert scene.pairs() == [(1, "people", NEXT, "Anna")]


@pytest.mark.row("B6")
def test_a_round_has_at_most_eight_distinct_questions(scene: Scene) -> None:
    words = ["ladder", "saw", "drill", "hammer", "wrench", "chisel", "plane", "spade", "rake"]
    many = [question(f"{one} {one}s {one}ing?", 5) for one in words]
    rules = [
        inquisitor(UX, *many[:6]),
        inquisitor(TECHNICAL, *many[6:], question(WHERE, 1)),
        inquisitor(EDGES, question("Where does it say who has the ladder just now?", 2), question(TWICE, 1)),
        {"address": "*/own/*", "data": {"questions": [question(WHERE, angle="again"), question(NEXT, angle="people")]}},
        STORY,
    ]
    scene.brainstorm(rules=rules, questions=[str(n) for n in range(9)], more="keep grilling")
    first = [text for number, _, text, _ in scene.pairs() if number == 1]
    assert len(first) == 8
    assert first[:2] == [WHERE, TWICE]
    assert "Where does it say who has the ladder just now?" not in first
    assert [text for number, _, text, _ in scene.pairs() if number == 2] == [NEXT]
    unused = scene.prompts("*/own/*")[0].partition("# Questions that others had and that were not put")[2]
    asked_texts = [text for number, _, text, _ in scene.pairs() if number == 1]
    assert unused.count("text: ") == 3, unused
    left_out = next(line for line in scene.done.out.splitlines() if "Round 1 leaves out 3 questions" in line)
    assert not [text for text in asked_texts if text in left_out]
    assert not [text for text in asked_texts if text in unused.partition("# Current task")[0]]


@pytest.mark.slow
@pytest.mark.row("B8")
def test_the_user_may_end_a_session_after_or_during_a_round(scene: Scene) -> None:
    scene.brainstorm(questions=FOUR, more="summarise")
    assert (scene.context()["rounds_completed"], len(scene.pairs())) == (1, 4)
    scene.brainstorm(name="middle", questions=["It depends", "summarise now"])
    assert [answer for *_, answer in scene.pairs()] == ["It depends", None, None, None]
    assert not scene.prompts("*/own/*")
    assert "No answer." in scene.text("00-brainstorming.md")
    scene.brainstorm("--rounds", "3", name="cap", questions="Yes", more="keep grilling")
    assert scene.context()["rounds_completed"] == 2, "the third round has nothing new to ask"


@pytest.mark.slow
@pytest.mark.row("B6", "B8", "X4")
def test_a_terminal_asks_one_by_one_and_loses_no_answer(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    (scene.project / "replies.yaml").write_text(json.dumps([*ASKING]))
    with scene.type_keys("Depends" + HOW_SURE + ENTER + ENTER + "On the fri" + CTRL_C, monkeypatch):
        done = scene.call("brainstorm", TOPIC, "--name", "tools", "--script", "replies.yaml")
    assert done.code == 130, done.out + done.err
    calls = len(scene.calls)
    with scene.type_keys("dge" + ENTER + "half an ans" + ENOUGH, monkeypatch):
        done = scene.call("brainstorm", "--resume", "tools", "--script", "replies.yaml")
    assert done.code == 0, done.out + done.err
    found = scene.context()["qa_pairs"]
    assert [one.get("answer") for one in found] == ["Depends", None, "On the fridge", "half an ans"]
    assert [one.get("confidence") for one in found] == ["certain", None, None, None]
    assert len(scene.calls) == calls + 1, "only the story is new"


@pytest.mark.slow
@pytest.mark.row("B1", "B12")
def test_resume_is_an_option_of_the_command(scene: Scene) -> None:
    scene.brainstorm(questions=FOUR, more="summarise")
    refused: dict[tuple[str, ...], Any] = {
        ("brainstorm", "--resume", "none"): "there is no run `none`",
        ("brainstorm", "--resume", "No Slug"): "is not a valid name",
        ("brainstorm", "--resume", ""): "is not a valid name",
        ("brainstorm", TOPIC, "--resume", "tools"): "with `topic`, which applies only to new runs",
        ("brainstorm", "--rounds", "3", "--resume", "tools"): "with `rounds`, which applies only to new runs",
        ("feature", "--resume", "tools"): "`tools` is a run of `brainstorm`, not of `feature`",
    }
    for words, message in refused.items():
        done = scene.call(*words)
        assert (done.code, message in done.err) == (2, True), done.err
    assert "tools is completed" in scene.call("brainstorm", "--resume", "tools").out


@pytest.mark.row("B12")
@pytest.mark.finding("FT9")
def test_a_run_outside_the_runs_folder_is_not_resumed_by_name_or_through_it(scene: Scene) -> None:
    rules = [{"address": "*/story/*", "fail": "overloaded"}, *ASKING]
    assert scene.brainstorm(rules=rules, questions=FOUR, more="summarise").code == 1
    away = scene.project.parent / "outside"
    shutil.copytree(scene.project / "runs", away)
    (scene.project / "runs" / "link").symlink_to(away)
    before = {path: path.stat().st_mtime_ns for path in away.rglob("*")}
    expected = {
        ("brainstorm", "--resume", "../outside/tools"): "`--resume` takes the name of a run",
        ("brainstorm", "--resume", str(away / "tools")): "`--resume` takes the name of a run",
        ("brainstorm", "--resume", "runs/link/tools"): "`--resume` takes the name of a run",
        ("brainstorm", "--resume", "link"): "is a symbolic link",
        ("brainstorm", "--resume", ".."): "is not a valid name",
        ("resume", "runs/link/tools"): "leads out of the runs folder",
        ("resume", "runs/../../outside/tools"): "leads out of the runs folder",
        ("answers", "./runs/link/tools"): "leads out of the runs folder",
        ("brainstorm", "x", "--name", "../outside/new"): "is not a valid name",
        ("brainstorm", "x", "--name", "link"): "leads through a symbolic link",
    }
    for words, message in expected.items():
        done = scene.call(*words, *(() if words[0] == "answers" else ("--script", "replies.yaml")))
        assert (done.code in (1, 2), message in done.err) == (True, True), (words, done.err)
    assert {path: path.stat().st_mtime_ns for path in away.rglob("*")} == before


@pytest.mark.row("B6")
@pytest.mark.finding("FT7")
def test_a_weighty_question_at_any_place_is_asked_first(scene: Scene) -> None:
    names = ["ladder", "saw", "drill", "hammer", "wrench", "chisel", "plane", "spade", "rake", "axe", "file", "vice"]
    slight = [question(f"{one} {one}s {one}ing?", 5) for one in [*names, *(f"old{one}" for one in names)]]
    rules = [inquisitor(UX, *slight, question(PAYS, 1)), inquisitor(TECHNICAL), inquisitor(EDGES, question(TWICE, 3))]
    own = [*slight[:9], question(NEXT, 1)]
    rules += [{"address": "*/own/*", "data": {"questions": [{**one, "angle": "people"} for one in own]}}, STORY]
    done = scene.brainstorm(rules=rules, questions=[str(n) for n in range(16)], more="keep grilling")
    assert [text for number, _, text, _ in scene.pairs() if number == 1][:3] == [PAYS, TWICE, slight[0]["text"]]
    assert next(text for number, _, text, _ in scene.pairs() if number == 2) == NEXT
    assert "Round 1 leaves out 18 questions, those of the lowest priority: " in done.out
    assert not [one for one in scene.front("summaries/questioning.md")["quality_warnings"] if "invalid" in one]


@pytest.mark.row("B3", "B4")
@pytest.mark.finding("FT6")
@pytest.mark.parametrize(
    ("reply", "status"),
    [
        *(({"fail": kind}, "timeout") for kind in ("overloaded", "rate_limit", "auth", "not_found", "connection")),
        *(({"fail": kind}, "timeout") for kind in ("invalid_request", "too_long", "other", "timeout")),
        ({"text": ""}, "empty"),
        ({"text": " \n\t\n"}, "empty"),
        ({"data": {"questions": []}}, "empty"),
        ({"text": "", "stop": "refusal"}, "empty"),
        ({"text": "", "stop": "length"}, "empty"),
        ({"text": "I do not ask.", "stop": "refusal"}, "parse_error"),
        ({"text": "What does it", "stop": "length"}, "parse_error"),
        ({"text": "Who pays?", "stop": "other"}, "parse_error"),
        ({"text": "Who pays?"}, "parse_error"),
    ],
)
def test_every_failure_of_an_inquisitor_has_one_of_four_statuses(scene: Scene, reply: Rule, status: str) -> None:
    rules = [{"address": f"*/inquisitors/{TECHNICAL}/*", **reply}, *ASKING]
    scene.brainstorm("--rounds", "1", "--agents", "2", rules=rules, questions="Yes")
    assert [
        (one["angle"], one["status"]) for one in scene.front("summaries/questioning.md")["flags"]["inquisitors"]
    ] == [
        ("ux", "success"),
        ("technical", status),
    ]


@pytest.mark.row("B9")
@pytest.mark.finding("FT8")
def test_questions_that_were_never_shown_have_no_time(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.brainstorm(questions=["It depends", "summarise now"])
    assert [("asked_at" in one) for one in scene.context()["qa_pairs"]] == [True, True, False, False]
    (scene.project / "replies.yaml").write_text(json.dumps([*ASKING]))
    for keys, shown in (
        (ENOUGH, [True, False, False, False]),
        ("a" + ENTER + "b" + ENOUGH, [True, True, False, False]),
        ("a" + ENTER + "b" + ENTER + BACK + BACK + ENOUGH, [True, True, True, False]),
    ):
        with scene.type_keys(keys, monkeypatch):
            scene.name = f"run-{len(keys)}"
            assert scene.call("brainstorm", TOPIC, "--name", scene.name, "--script", "replies.yaml").code == 0
        assert [("asked_at" in one) for one in scene.context()["qa_pairs"]] == shown


@pytest.mark.row("B9")
@pytest.mark.finding("FT13")
@pytest.mark.parametrize(
    ("topic", "heading"),
    [
        (TOPIC, f"# {TOPIC}\n"),
        (
            "Share tools\n\nEvery neighbour has a drill.",
            "# Share tools\n\nShare tools\n\nEvery neighbour has a drill.\n",
        ),
        ("Neighbours share their tools. " * 20, "# Neighbours share their tools. "),
    ],
)
def test_a_long_topic_has_a_short_heading(scene: Scene, topic: str, heading: str) -> None:
    scene.run("brainstorm", topic, "--name", "tools", "--rounds", "1", questions="Yes")
    text = scene.text("00-brainstorming.md")
    assert text.startswith(heading)
    assert len(text.splitlines()[0]) < 120
    assert topic.strip() in text
    assert scene.context()["topic"] == topic


DRAFT = json.dumps({"questions": [question("Is this a draft?", 1)]})


@pytest.mark.row("B4")
@pytest.mark.finding("FT13")
@pytest.mark.parametrize(
    "text",
    [
        f"<think>\nA draft: {DRAFT}\n</think>\n\n{ONE}",
        f"<think>{DRAFT}</think>{ONE}",
        f"Sure.\n<THINKING>\n```json\n{DRAFT}\n```\n</THINKING>\n```json\n{ONE}\n```",
        f"The server ate the tag. {DRAFT}\n</think>\n{ONE}",
        f"<think>one {DRAFT}</think>\n<think>two {DRAFT}</think>\n{ONE}",
    ],
)
def test_what_a_model_thinks_is_not_asked(scene: Scene, text: str) -> None:
    rules = [{"address": f"*/inquisitors/{UX}/*", "text": text}, STORY]
    scene.brainstorm("--rounds", "1", "--agents", "1", rules=rules, questions="Yes")
    assert [asked for _, _, asked, _ in scene.pairs()] == [PAYS]
    assert "Is this a draft?" in scene.text(".run/transcript.ndjson")


@pytest.mark.row("B4")
@pytest.mark.finding("FT13")
def test_thoughts_are_in_no_document_and_tags_in_a_document_stay(scene: Scene) -> None:
    story = "Use `<think>`.\n\n```\n<think>\nlike this\n</think>\n```\n\nThe end."
    told = {**STORY, "text": f"<think>\nNot this.\n</think>\n{story}"}
    scene.brainstorm("--rounds", "1", rules=[told, *ASKING], questions="Yes")
    text = scene.text("00-brainstorming.md")
    assert story in text
    assert "Not this." not in text
    unclosed = {"address": f"*/inquisitors/{UX}/*", "text": f"<think>{DRAFT}"}
    scene.brainstorm("--rounds", "1", "--agents", "1", name="cut", rules=[unclosed, *ASKING], questions="Yes")
    assert scene.front("summaries/questioning.md")["flags"]["inquisitors"][0]["status"] == "empty"


@pytest.mark.row("B3", "B5")
@pytest.mark.finding("FT6")
@pytest.mark.parametrize("kind", ["auth", "not_found", "overloaded"])
def test_without_any_callable_inquisitor_the_interviewer_asks_alone(scene: Scene, kind: str) -> None:
    rules = [{"address": "*/inquisitors/*", "fail": kind}, *ASKING]
    done = scene.brainstorm("--rounds", "1", rules=rules, questions="Anna")
    assert done.code == 0, done.out + done.err
    assert scene.pairs() == [(1, "people", NEXT, "Anna")]
    flags = scene.front("summaries/questioning.md")["flags"]
    assert [one["status"] for one in flags["inquisitors"]] == ["timeout"] * 3
    assert flags["interviewer_alone"] is True
    failing = [{"address": "*", "fail": kind}]
    done = scene.brainstorm("--rounds", "1", name="nobody", rules=failing, questions="Anna")
    assert (done.code, "`own` was not answered" in done.out) == (1, True), done.out


@pytest.mark.row("B9")
@pytest.mark.finding("FR48")
def test_markdown_in_an_answer_does_not_change_the_document(scene: Scene) -> None:
    scene.brainstorm(questions=["```\nunclosed", "# A heading", "---\nline", ""], more="summarise")
    text = scene.text("00-brainstorming.md")
    assert "\n\n> ```\n> unclosed\n\n**" in text
    assert "\n\n> # A heading\n\n**" in text
    assert "\n\n> ---\n> line\n\n**" in text
    assert text.endswith("\n\nNo answer.\n")
    assert scene.pairs()[0][3] == "```\nunclosed"


@pytest.mark.row("B8")
@pytest.mark.finding("FR46")
def test_the_end_of_the_questions_counts_in_capitals(scene: Scene) -> None:
    done = scene.brainstorm(questions=["It depends", "Summarise Now"])
    assert done.code == 0, done.out + done.err
    assert [answer for *_, answer in scene.pairs()] == ["It depends", None, None, None]


@pytest.mark.row("B8")
@pytest.mark.finding("FR49")
@pytest.mark.parametrize("questions", [[], [question(PAYS, angle="again")]])
def test_a_round_without_another_question_says_so(scene: Scene, questions: list[Any]) -> None:
    own: Rule = {"address": "*/own/*", "data": {"questions": questions}}
    done = scene.brainstorm(rules=[own, *ASKING], questions="Yes", more="keep grilling")
    assert (done.code, scene.context()["rounds_completed"]) == (0, 1)
    assert "There are no more questions, so the answers so far are summarised." in done.out


@pytest.mark.row("B9")
@pytest.mark.finding("FR55")
def test_the_story_of_skipped_questions_is_not_told_from_answers(scene: Scene) -> None:
    scene.brainstorm(questions="", more="summarise")
    (prompt,) = scene.prompts("*/story/*")
    assert "The person answered no question." in prompt
    assert "based on their answers" not in prompt


@pytest.mark.row("B6")
@pytest.mark.finding("FR54")
def test_one_question_without_room_is_named_in_the_singular(scene: Scene) -> None:
    words = ["ivory", "jewel", "kayak", "lemon", "mango", "nylon", "olive", "piano", "quilt"]
    asks = inquisitor(UX, *(question(f"Which {word}?", 1 + (word == "olive")) for word in words))
    done = scene.brainstorm("--agents", "1", rules=[asks, STORY], questions="Yes", more="summarise")
    assert "leaves out 1 question, that of the lowest priority: Which olive?" in done.out
