"""Forms that a person fills in: written once, read as they are meant, never guessed."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillrun.language.diagnostics import SkillrunError
from skillrun.people.answers import shown
from skillrun.people.form import UnclearAnswers, read_form, write_form

STORE = {
    "id": "store",
    "text": "Where are the settings kept?",
    "choices": ["In the browser", "On the server, per user", "Nowhere"],
    "priority": "CRITICAL",
    "section": "Data",
    "notes": [{"perspective": "security", "note": "A shared computer keeps them."}],
}
OPEN = {**STORE, "id": "open", "other": True}
SEVERAL = {**STORE, "id": "several", "multiple": True}
BOTH = {**STORE, "id": "both", "multiple": True, "other": True}
WORDS: dict[str, Any] = {"id": "words", "text": "Who asked for it?"}
SERVER = {"answer": "On the server, per user"}

Fill = Callable[[str], str]


def filled(tmp_path: Path, questions: list[dict[str, Any]], fill: Fill) -> list[dict[str, Any]]:
    path = tmp_path / f"form-{len(list(tmp_path.iterdir()))}.md"
    assert write_form(path, questions)
    path.write_text(fill(path.read_text("utf-8")), "utf-8")
    return read_form(path, questions)


def replaced(old: str, new: str) -> Fill:
    def fill(text: str) -> str:
        assert old in text
        return text.replace(old, new, 1)

    return fill


@pytest.mark.row("R6")
def test_a_form_reads_well_with_options_priority_section_notes_and_a_place_for_the_answer(tmp_path: Path) -> None:
    path = tmp_path / "QUESTIONS-001.md"
    write_form(path, [OPEN, WORDS | {"default": ""}], "Questions of round 1")
    assert path.read_text("utf-8").split("\n\n", 2)[0] == "# Questions of round 1"
    assert path.read_text("utf-8").split("\n\n", 2)[2] == (
        "## Q1 · CRITICAL · Data · open\n"
        "\n"
        "> Where are the settings kept?\n"
        ">\n"
        "> - security: A shared computer keeps them.\n"
        ">\n"
        "> *Choose one, or answer in your own words.*\n"
        "\n"
        "- [ ] In the browser\n"
        "- [ ] On the server, per user\n"
        "- [ ] Nowhere\n"
        "\n"
        "Answer:\n"
        "\n"
        "\n"
        "## Q2 · words\n"
        "\n"
        "> Who asked for it?\n"
        ">\n"
        "> *Answer in your own words. It may be left open.*\n"
        "\n"
        "Answer:\n"
        "\n"
    )


@pytest.mark.row("R6")
def test_a_form_that_is_there_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "form.md"
    path.write_text("half filled")
    assert not write_form(path, [STORE])
    assert path.read_text() == "half filled"
    assert [one.name for one in tmp_path.iterdir()] == ["form.md"]


def test_a_form_is_not_overwritten_where_the_file_system_has_no_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "link", refuse)
    path = tmp_path / "form.md"
    assert write_form(path, [STORE])
    path.write_text("half filled")
    assert not write_form(path, [STORE])
    assert path.read_text() == "half filled"


@pytest.mark.row("R6")
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[ ] On", "[x] On"),
        ("[ ] On", "[X] On"),
        ("[ ] On", "[ x ] On"),
        ("[ ] On", "[x]On"),
        ("[ ] On", "[✓] On"),
        ("- [ ] On", "* [x] On"),
        ("- [ ] On", "  - [x] On"),
        ("- [ ] On the server, per user", "- [x] on the  server, per USER"),
        ("Answer:", "Answer: on the server, per user"),
        ("Answer:", "**Answer:** On the server, per user"),
        ("Answer:", "**Answer**: On the server, per user"),
        ("Answer:", "answer : On the server, per user"),
        ("Answer:", "Answer:\n\n\nOn the server, per user"),
        ("Answer:", "Answer:\n- On the server, per user"),
    ],
)
def test_a_choice_is_ticked_or_written(tmp_path: Path, old: str, new: str) -> None:
    for question in (STORE, OPEN):
        assert filled(tmp_path, [question], replaced(old, new)) == [SERVER]


@pytest.mark.row("R6")
def test_words_below_a_tick_are_kept(tmp_path: Path) -> None:
    def fill(text: str) -> str:
        return text.replace("[ ] On", "[x] On").replace("Answer:", "Answer: but not yet,\n- and not all")

    for question in (STORE, OPEN):
        assert filled(tmp_path, [question], fill) == [{**SERVER, "comment": "but not yet,\n- and not all"}]


@pytest.mark.row("R6")
@pytest.mark.parametrize("words", ["in a cookie", "A cookie of ours,\n\nor two.", "Nowhere, or in a cookie"])
def test_words_of_their_own_are_an_answer_where_the_question_is_open(tmp_path: Path, words: str) -> None:
    assert filled(tmp_path, [OPEN], replaced("Answer:", f"Answer: {words}")) == [{"answer": words}]


@pytest.mark.row("R6")
@pytest.mark.parametrize(
    "words",
    [
        "the sales team",
        "*the* sales team",
        "#",
        "the sales team:\n\n- [x] A. Anna\n- [ ] B. Ben",
        "see\n\n```\n## Q1\nAnswer: none\n```\n\nand so on",
        "## A heading\n\nof mine",
        "> as they said\n\nin May",
        "first\n\n---\n\nthen",
        "Q1 figures",
    ],
)
def test_free_text_is_kept_as_it_is_written(tmp_path: Path, words: str) -> None:
    assert filled(tmp_path, [WORDS], replaced("Answer:", f"Answer:\n{words}")) == [{"answer": words}]


@pytest.mark.parametrize(
    ("fill", "answer"),
    [
        (lambda text: text.replace("[ ] In", "[x] In").replace("[ ] No", "[x] No"), ["In the browser", "Nowhere"]),
        (replaced("Answer:", "Answer: nowhere; in the browser"), ["Nowhere", "In the browser"]),
        (
            replaced("Answer:", "Answer:\n- In the browser\n- On the server, per user"),
            ["In the browser", "On the server, per user"],
        ),
        (
            lambda text: text.replace("[ ] In", "[x] In").replace("Answer:", "Answer: nowhere"),
            ["In the browser", "Nowhere"],
        ),
    ],
)
def test_several_may_be_chosen_where_the_question_says_so(tmp_path: Path, fill: Fill, answer: list[str]) -> None:
    for question in (SEVERAL, BOTH):
        assert filled(tmp_path, [question], fill) == [{"answer": answer}]


def test_several_and_words_of_their_own_are_an_answer(tmp_path: Path) -> None:
    def fill(text: str) -> str:
        return text.replace("[ ] No", "[x] No").replace("Answer:", "Answer: in a cookie")

    assert filled(tmp_path, [BOTH], fill) == [{"answer": ["Nowhere", "in a cookie"]}]


@pytest.mark.row("R6")
def test_what_is_left_open_is_unanswered_or_takes_its_default(tmp_path: Path) -> None:
    questions = [STORE, WORDS, {**STORE, "id": "again", "default": "Nowhere"}, {**WORDS, "default": ""}]
    assert filled(tmp_path, questions, replaced("[ ] On", "[x] On")) == [SERVER, {}, {"answer": "Nowhere"}, {}]


@pytest.mark.row("R6")
def test_a_form_that_nobody_filled_in_still_waits(tmp_path: Path) -> None:
    with pytest.raises(UnclearAnswers, match="nothing is filled in yet"):
        filled(tmp_path, [STORE, WORDS | {"default": ""}], lambda text: text)
    assert filled(tmp_path, [WORDS | {"default": ""}], lambda text: text) == [{}]


@pytest.mark.row("R6")
@pytest.mark.parametrize(
    ("question", "fill", "why"),
    [
        (
            STORE,
            lambda t: t.replace("[ ] In", "[x] In").replace("[ ] No", "[x] No"),
            "18: Q1: `In the browser` and `Nowhere` are chosen, and the question takes one answer",
        ),
        (
            OPEN,
            lambda t: t.replace("[ ] In", "[x] In").replace("Answer:", "Answer: nowhere"),
            "18: Q1: `In the browser` and `Nowhere` are chosen",
        ),
        (STORE, replaced("Answer:", "Answer: nowhere; in the browser"), "`Nowhere` and `In the browser` are chosen"),
        (STORE, replaced("Answer:", "Answer: in a cookie"), "18: Q1: `in a cookie` is none of the choices"),
        (SEVERAL, replaced("Answer:", "Answer: nowhere, in a cookie"), "is none of the choices"),
        (STORE, replaced("- [ ] Nowhere", "- [x] Somewhere"), "16: Q1: `- .x. Somewhere` is none of the choices"),
        (STORE, replaced("[ ] Nowhere", "[ ] Nowhere <- this"), "is none of the choices as they stood"),
        (STORE, replaced("[ ] No", "[-] No"), r"16: Q1: `\[-\]` is neither ticked nor empty"),
        (STORE, replaced("Answer:", "Nowhere\n\nAnswer:"), "18: Q1: `Nowhere` is not the form's; write below"),
        (WORDS, replaced("Answer:", "> me\n\nAnswer:"), "`> me` is not the form's"),
        (WORDS, replaced("Answer:", ""), "7: Q1: the line `Answer:` is missing"),
        (WORDS, lambda t: t + t[t.index("## Q1") :], "14: Q1: the question stands here a second time"),
        (WORDS, lambda t: t.replace("## Q1 · words\n", "").replace("Answer:", "Answer: me"), "`## Q1` is missing"),
    ],
)
def test_what_is_unclear_is_named_and_not_guessed(
    tmp_path: Path, question: dict[str, Any], fill: Fill, why: str
) -> None:
    with pytest.raises(UnclearAnswers, match=why) as raised:
        filled(tmp_path, [question], fill)
    assert str(raised.value).startswith(f"{tmp_path}/form-0.md:")
    assert raised.value.next_step.endswith("then resume")


def test_all_that_is_unclear_is_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(UnclearAnswers) as raised:
        filled(
            tmp_path, [STORE, {**STORE, "text": "And the backups?"}], lambda text: text.replace("Answer:", "Answer: F")
        )
    assert [line.split(": ")[1] for line in str(raised.value).split("\n")] == ["Q1", "Q2"]


@pytest.mark.parametrize(
    ("old", "new"), [("## Q2 · when\n", ""), ("Answer:", "Answer: see\n```\nsome code")], ids=["deleted", "in code"]
)
def test_a_question_whose_heading_is_gone_is_not_read_as_part_of_another(tmp_path: Path, old: str, new: str) -> None:
    questions = [WORDS, {"id": "when", "text": "When is it needed?"}]
    with pytest.raises(UnclearAnswers, match="the heading `## Q2` is missing"):
        filled(tmp_path, questions, replaced(old, new))


def test_a_file_that_is_no_text_is_said(tmp_path: Path) -> None:
    path = tmp_path / "form.md"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SkillrunError, match="UTF-8"):
        read_form(path, [STORE])


# A simulated person

HOSTILE = [
    "# Heading", "## Q1", "## Q2 · q2", "- [x] A. one", "- [ ] B.", "[x] Other: me", "```", "~~~", "Answer: yes",
    "**Answer:** B", "> quoted", "---", "***", "A.", "B. two", "one", "other", "<!-- a comment", "| a | b |", "1. item",
    "    code", "\\# x", "\u202eabc", "\x1b[31m", "a_b*c`d", "plain words of a question", "(c)", "x", "",
]  # fmt: skip
PIECES = st.one_of(st.sampled_from(HOSTILE), st.text(max_size=30))
TEXTS = st.lists(PIECES, min_size=1, max_size=4).map("\n".join)
CHOICES = st.lists(PIECES.map(shown).filter(bool), min_size=2, max_size=30, unique_by=str.casefold)
ANSWERS = st.lists(
    st.sampled_from(
        ["It is for the sales team.", "", "- [x] done", "- a list", "> said Ann", "No, never", "A. First", "1 or 2"]
    ),
    max_size=4,
).map(lambda lines: "\n".join(["We say so", *lines]).strip())
TICK = st.sampled_from(["[x]", "[X]", "[ x ]", "[✓]"])


@st.composite
def questions_and_fills(draw: st.DrawFn) -> tuple[list[dict[str, Any]], list[tuple[str, Any, Any]], list[int]]:
    """Questions, what is done with each (how, with what, what comes of it), and their order."""
    questions, fills = [], []
    for number in range(draw(st.integers(1, 4))):
        question: dict[str, Any] = {"id": f"q{number + 1}", "text": draw(TEXTS), "default": ""}
        if draw(st.booleans()):
            question["notes"] = draw(st.lists(PIECES, max_size=2))
        if draw(st.booleans()):
            choices = draw(CHOICES)
            picked = draw(st.integers(0, len(choices) - 1))
            question |= {"choices": choices, "other": draw(st.booleans())}
            ways = ["tick", "label", "nothing", *(["other"] if question["other"] else [])]
            how = draw(st.sampled_from(ways))
            given = draw(ANSWERS).split("\n")[0] if how == "other" else (picked, draw(TICK))
            answer = {"tick": choices[picked], "label": choices[picked], "other": given}.get(how)
        else:
            how = draw(st.sampled_from(["words", "below", "nothing"]))
            given = answer = draw(ANSWERS)
        questions.append(question)
        fills.append((how, given, answer if how != "nothing" else None))
    return questions, fills, draw(st.permutations(range(len(questions))))


def fill_in(section: str, how: str, given: Any, choices: list[str]) -> str:
    head, place, rest = section.rpartition("\nAnswer:\n")
    assert place
    if how == "words":
        return f"{head}\n**Answer:** {given}\n{rest}"
    if how == "below":
        return f"{head}\n\nAnswer:\n\n{given}\n{rest}"
    if how == "other":
        return f"{head}\nAnswer: {given}\n{rest}"
    if how == "label":
        return f"{head}\nAnswer: {choices[given[0]]}\n{rest}"
    if how == "tick":
        before, box, after = section.rpartition(f"\n- [ ] {choices[given[0]]}\n")
        assert box
        return before + box.replace("[ ]", given[1]) + after
    return section


@pytest.mark.row("R6")
@given(questions_and_fills())
def test_what_a_person_fills_in_is_what_is_read(
    tmp_path_factory: pytest.TempPathFactory,
    drawn: tuple[list[dict[str, Any]], list[tuple[str, Any, Any]], list[int]],
) -> None:
    questions, fills, order = drawn
    path = tmp_path_factory.mktemp("form") / "form.md"
    write_form(path, questions)
    intro, *parts = path.read_text("utf-8").split("\n## Q")
    assert len(parts) == len(questions)
    written = [intro]
    for number in order:
        how, given_, _ = fills[number]
        filled_in = fill_in(parts[number], how, given_, questions[number].get("choices", []))
        written.append(f"## Q{filled_in}\n\n")
    path.write_bytes("\n".join(written).replace("\n", "\r\n" if order[0] else "\n").encode("utf-8-sig"))
    expected = [{} if answer is None else {"answer": answer} for _, _, answer in fills]
    found = read_form(path, questions)
    assert found == expected


@given(TEXTS, st.lists(PIECES, max_size=3), st.none() | CHOICES, st.booleans(), st.booleans())
def test_no_question_looks_answered_before_it_is(
    tmp_path_factory: pytest.TempPathFactory,
    text: str,
    notes: list[str],
    choices: list[str] | None,
    other: bool,
    multiple: bool,
) -> None:
    question = {"id": "q", "text": text, "notes": notes, "choices": choices, "other": other, "multiple": multiple}
    question["default"] = ""
    path = tmp_path_factory.mktemp("form") / "form.md"
    write_form(path, [question, question])
    assert read_form(path, [question, question]) == [{}, {}]
