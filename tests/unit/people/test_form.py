"""Forms that a person fills in: written once, read whatever liberties they took, never guessed."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillrun.language.diagnostics import SkillrunError
from skillrun.people.answers import folded, shown
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
        "- [ ] A. In the browser\n"
        "- [ ] B. On the server, per user\n"
        "- [ ] C. Nowhere\n"
        "- [ ] Other:\n"
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
        ("[ ] B", "[x] B"),
        ("[ ] B", "[X] B"),
        ("[ ] B", "[ x] B"),
        ("[ ] B", "[x ] B"),
        ("[ ] B", "[x]B"),
        ("[ ] B", "[✓] B"),
        ("- [ ] B", "* [x] B"),
        ("- [ ] B", "  - [x] B"),
        ("- [ ] B. On", "[x] On"),
        ("- [ ] B. On the server, per user", "- [x] b)  on the  server, per USER"),
        ("- [ ] B. On the server, per user", "- [x] B. On the server,\n      per user"),
        ("- [ ] B. On the server, per user", "- [x] B"),
        ("Answer:", "Answer: b"),
        ("Answer:", "Answer: B."),
        ("Answer:", "Answer: (b)"),
        ("Answer:", "**Answer:** b"),
        ("Answer:", "**Answer**: b"),
        ("Answer:", "answer : b"),
        ("Answer:", "### Answer: b"),
        ("Answer:", "Answer:\n\n\nb"),
        ("Answer:", "Answer\n\nb"),
        ("Answer:", "b"),
        ("Answer:", "B. On the server, per user\n\nAnswer:"),
        ("Answer:", "Answer: on the server, per user"),
        ("Answer:", "Answer: `On the server, per user`"),
        ("Answer:", "Answer:\n- B. On the server, per user"),
        ("Answer:", "Answer:\n- [x] B. On the server, per user"),
    ],
)
def test_a_choice_is_read_whatever_way_it_is_marked(tmp_path: Path, old: str, new: str) -> None:
    for question in (STORE, OPEN):
        assert filled(tmp_path, [question], replaced(old, new)) == [SERVER]


@pytest.mark.row("R6")
@pytest.mark.parametrize(
    ("old", "new", "comment"),
    [
        ("[ ] B. On the server, per user", "[x] B. On the server, per user (in Europe)", "(in Europe)"),
        ("Answer:", "Answer: B) but not yet", "but not yet"),
        ("Answer:", "Answer: b - but not yet", "but not yet"),
        ("Answer:", "Answer: b\n\nbut not yet\n- and not all", "but not yet\n- and not all"),
        ("Answer:", "Answer: On the server, per user\nbut not yet", "but not yet"),
    ],
)
def test_words_beside_a_choice_are_kept(tmp_path: Path, old: str, new: str, comment: str) -> None:
    for question in (STORE, OPEN):
        assert filled(tmp_path, [question], replaced(old, new)) == [{**SERVER, "comment": comment}]


def test_words_below_a_tick_are_kept(tmp_path: Path) -> None:
    def fill(text: str) -> str:
        return text.replace("[ ] B", "[x] B").replace("Answer:", "Answer: but not yet, please")

    assert filled(tmp_path, [OPEN], fill) == [{**SERVER, "comment": "but not yet, please"}]


@pytest.mark.row("R6")
@pytest.mark.parametrize(
    ("old", "new", "answer"),
    [
        ("- [ ] Other:", "- [x] Other: in a cookie", "in a cookie"),
        ("- [ ] Other:", "- [ ] Other: in a cookie", "in a cookie"),
        ("- [ ] Other:", "- [x] other in a cookie\n  of ours", "in a cookie of ours"),
        ("- [ ] Other:\n\nAnswer:", "- [x] Other:\n\nAnswer: in a cookie", "in a cookie"),
        ("Answer:", "Answer: in a cookie", "in a cookie"),
        ("Answer:", "Answer:\nA cookie of ours,\n\nor two.", "A cookie of ours,\n\nor two."),
        ("Answer:", "in a cookie\n\nAnswer:", "in a cookie"),
    ],
)
def test_words_of_their_own_are_an_answer_where_the_question_is_open(
    tmp_path: Path, old: str, new: str, answer: str
) -> None:
    assert filled(tmp_path, [OPEN], replaced(old, new)) == [{"answer": answer}]


@pytest.mark.row("R6")
@pytest.mark.parametrize(
    "words",
    [
        "the sales team",
        "*the* sales team",
        "#",
        "the sales team:\n\n- [x] A. Anna\n- [ ] B. Ben",
        "see\n\n```\n## Q1\nAnswer: none\n```\n\nand so on",
        "> as they said\n\nin May",
        "first\n\n---\n\nthen",
        "Q1 figures",
    ],
)
def test_free_text_is_kept_as_it_is_written(tmp_path: Path, words: str) -> None:
    assert filled(tmp_path, [WORDS], replaced("Answer:", f"Answer: {words}")) == [{"answer": words}]


def test_an_unclosed_code_block_ends_at_the_next_question(tmp_path: Path) -> None:
    questions = [WORDS, STORE]

    def fill(text: str) -> str:
        return text.replace("Answer:", "Answer: see\n```\nsome code", 1).replace("[ ] B", "[x] B")

    assert filled(tmp_path, questions, fill) == [{"answer": "see\n```\nsome code"}, SERVER]


@pytest.mark.parametrize(
    ("fill", "answer"),
    [
        (lambda text: text.replace("[ ] A", "[x] A").replace("[ ] C", "[x] C"), ["In the browser", "Nowhere"]),
        (replaced("Answer:", "Answer: c, a"), ["In the browser", "Nowhere"]),
        (replaced("Answer:", "Answer: A and C"), ["In the browser", "Nowhere"]),
        (replaced("Answer:", "Answer: nowhere; in the browser"), ["In the browser", "Nowhere"]),
        (replaced("Answer:", "Answer:\n- A\n- On the server, per user"), ["In the browser", "On the server, per user"]),
        (lambda text: text.replace("[ ] A", "[x] A").replace("Answer:", "Answer: c"), ["In the browser", "Nowhere"]),
    ],
)
def test_several_may_be_chosen_where_the_question_says_so(tmp_path: Path, fill: Fill, answer: list[str]) -> None:
    for question in (SEVERAL, BOTH):
        assert filled(tmp_path, [question], fill) == [{"answer": answer}]


def test_several_and_words_of_their_own_are_an_answer(tmp_path: Path) -> None:
    def fill(text: str) -> str:
        return text.replace("[ ] C", "[x] C").replace("Other:", "Other: in a cookie")

    assert filled(tmp_path, [BOTH], fill) == [{"answer": ["Nowhere", "in a cookie"]}]


@pytest.mark.row("R6")
def test_what_is_left_open_or_deleted_is_unanswered_or_takes_its_default(tmp_path: Path) -> None:
    questions = [STORE, WORDS, {**STORE, "id": "again", "default": "Nowhere"}, {**WORDS, "default": ""}]

    def fill(text: str) -> str:
        parts = text.split("## Q")
        return "## Q".join([parts[0], parts[1].replace("[ ] B", "[x] B"), *parts[3:]])

    assert filled(tmp_path, questions, fill) == [SERVER, {}, {"answer": "Nowhere"}, {}]


@pytest.mark.row("R6")
def test_a_form_that_nobody_filled_in_still_waits(tmp_path: Path) -> None:
    with pytest.raises(UnclearAnswers, match="nothing is filled in yet"):
        filled(tmp_path, [STORE, WORDS | {"default": ""}], lambda text: text)
    assert filled(tmp_path, [WORDS | {"default": ""}], lambda text: text) == [{}]


@pytest.mark.row("R6")
@pytest.mark.parametrize(
    ("question", "fill", "why"),
    [
        (STORE, lambda t: t.replace("[ ] A", "[x] A").replace("[ ] C", "[x] C"), "16: Q1: A and C are chosen"),
        (STORE, lambda t: t.replace("[ ] A", "[x] A").replace("Answer:", "Answer: c"), "18: Q1: A and C are chosen"),
        (STORE, replaced("Answer:", "Answer: a, b"), "A and B are chosen, and the question takes one answer"),
        (STORE, replaced("Answer:", "Answer: F"), "there is no option F, only A to C"),
        (OPEN, replaced("Answer:", "Answer: F"), "there is no option F, only A to C"),
        (SEVERAL, replaced("Answer:", "Answer: a, f"), "there is no option F"),
        (STORE, replaced("Answer:", "Answer: in a cookie"), "`in a cookie` is none of the options A to C"),
        (STORE, replaced("Answer:", "Answer: B. Nowhere"), "B and C are chosen"),
        ({**STORE, "choices": ["A", "C", "B"]}, replaced("Answer:", "Answer: b"), "B and C are chosen"),
        (STORE, replaced("- [ ] C. Nowhere", "- [x] D. In a cookie"), "`D. In a cookie` is none of the options"),
        (STORE, replaced("- [ ] C. Nowhere", "- [x] C. Somewhere"), "`C. Somewhere` is none of the options"),
        (STORE, replaced("[ ] C. Nowhere", "[ ] C. Nowhere <- this"), "is none of the options as they stood"),
        (STORE, replaced("[ ] C", "[-] C"), r"`\[-\]` is neither ticked nor empty"),
        (OPEN, replaced("[ ] Other:", "[x] Other:"), "`Other` is ticked, and nothing is written there"),
        (OPEN, lambda t: t.replace("[ ] A", "[x] A").replace("Other:", "Other: a cookie"), "A and Other are chosen"),
        (WORDS, lambda t: t + t[t.index("## Q1") :], "the question stands here a second time"),
        (WORDS, lambda t: t.replace("## Q1 · words\n", "").replace("Answer:", "Answer: me"), "a heading is missing"),
    ],
)
def test_what_is_unclear_is_named_and_not_guessed(
    tmp_path: Path, question: dict[str, Any], fill: Fill, why: str
) -> None:
    with pytest.raises(UnclearAnswers, match=why) as raised:
        filled(tmp_path, [question], fill)
    assert str(raised.value).startswith(f"{tmp_path}/form-0.md:")
    assert raised.value.next_step.endswith("then resume")
    assert raised.value.exit_code == 75


def test_all_that_is_unclear_is_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(UnclearAnswers) as raised:
        filled(
            tmp_path, [STORE, {**STORE, "text": "And the backups?"}], lambda text: text.replace("Answer:", "Answer: F")
        )
    assert [one.name for one in raised.value.unclear] == ["Q1", "Q2"]


def test_a_question_whose_heading_is_gone_is_not_read_as_part_of_another(tmp_path: Path) -> None:
    questions = [WORDS, {"id": "when", "text": "When is it needed?"}]
    with pytest.raises(UnclearAnswers, match="Q2: its heading is missing"):
        filled(tmp_path, questions, lambda text: text.replace("## Q2 · when\n", "").replace("Answer:", "Answer: me"))


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
CHOICES = st.lists(
    PIECES.map(shown).filter(lambda text: sum(c.isalnum() for c in text) > 1),
    min_size=2,
    max_size=30,
    unique_by=lambda text: "".join(c for c in folded(text) if c.isalnum()),
)
ANSWERS = st.lists(
    st.sampled_from(
        ["It is for the sales team.", "", "- [x] done", "- a list", "> said Ann", "No, never", "A. First", "1 or 2"]
    ),
    max_size=4,
).map(lambda lines: "\n".join(["We say so", *lines]).strip())
TICK = st.sampled_from(["[x]", "[X]", "[ x]", "[x ]", "[✓]"])


@st.composite
def questions_and_fills(draw: st.DrawFn) -> tuple[list[dict[str, Any]], list[tuple[str, Any, Any]], list[int], int]:
    """Questions, what is done with each (how, with what, what comes of it), their order, the headings' level."""
    questions, fills = [], []
    for number in range(draw(st.integers(1, 4))):
        question: dict[str, Any] = {"id": f"q{number + 1}", "text": draw(TEXTS), "default": ""}
        if draw(st.booleans()):
            question["notes"] = draw(st.lists(PIECES, max_size=2))
        if draw(st.booleans()):
            choices = draw(CHOICES)
            picked = draw(st.integers(0, len(choices) - 1))
            question |= {"choices": choices, "other": draw(st.booleans())}
            ways = ["tick", "letter", "label", "nothing", "delete", *(["other"] if question["other"] else [])]
            how = draw(st.sampled_from(ways))
            given = draw(ANSWERS).split("\n")[0] if how == "other" else (picked, draw(TICK))
            answer = {"tick": choices[picked], "letter": choices[picked], "label": choices[picked], "other": given}.get(
                how
            )
        else:
            how = draw(st.sampled_from(["words", "below", "nothing", "delete"]))
            given = answer = draw(ANSWERS)
        questions.append(question)
        fills.append((how, given, answer if how not in ("nothing", "delete") else None))
    return questions, fills, draw(st.permutations(range(len(questions)))), draw(st.integers(1, 6))


def letter(number: int) -> str:
    return chr(65 + number) if number < 26 else f"A{chr(65 + number - 26)}"


def fill_in(section: str, how: str, given: Any, choices: list[str]) -> str:
    head, place, rest = section.rpartition("\nAnswer:\n")
    assert place
    if how == "words":
        return f"{head}\n**Answer:** {given}\n{rest}"
    if how == "below":
        return f"{head}\n\nAnswer:\n\n{given}\n{rest}"
    if how == "other":
        return f"{head}\nAnswer: {given}\n{rest}"
    if how == "letter":
        return f"{head}\nAnswer: {letter(given[0]).lower()}\n{rest}"
    if how == "label":
        return f"{head}\nAnswer: {letter(given[0])}. {shown(choices[given[0]])}\n{rest}"
    if how == "tick":
        before, box, after = section.rpartition(f"\n- [ ] {letter(given[0])}. ")
        assert box
        return before + box.replace("[ ]", given[1]) + after
    return section


@pytest.mark.row("R6")
@given(questions_and_fills())
def test_what_a_person_fills_in_is_what_is_read(
    tmp_path_factory: pytest.TempPathFactory,
    drawn: tuple[list[dict[str, Any]], list[tuple[str, Any, Any]], list[int], int],
) -> None:
    questions, fills, order, level = drawn
    path = tmp_path_factory.mktemp("form") / "form.md"
    write_form(path, questions)
    intro, *parts = path.read_text("utf-8").split("\n## Q")
    assert len(parts) == len(questions)
    written = [intro]
    for number in order:
        how, given_, _ = fills[number]
        if how != "delete":
            filled_in = fill_in(parts[number], how, given_, questions[number].get("choices", []))
            written.append(f"{'#' * level} Q{filled_in}\n\n")
    path.write_bytes("\n".join(written).replace("\n", "\r\n" if level % 2 else "\n").encode("utf-8-sig"))
    expected = [{} if answer is None else {"answer": answer} for _, _, answer in fills]
    found = read_form(path, questions)
    assert [one.get("answer") for one in found] == [one.get("answer") for one in expected]
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
    path = tmp_path_factory.mktemp("form") / "form.md"
    write_form(path, [question, question])
    assert read_form(path, [{**question, "default": ""}] * 2) == [{}, {}]
