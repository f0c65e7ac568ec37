"""Forms that a user fills in are written once and read as intended; unclear answers are reported, not guessed."""

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

from skillrun.questions.answers import Answer, InvalidAnswer, Question, to_one_line, validate_answer
from skillrun.questions.form import UnclearAnswers, read_form, write_form
from skillrun.questions.written_answers import ChoiceNames, Phrases, choice_letter
from skillrun.repository.confined_folder import ConfinedFolder
from skillrun.store.local.local_files import LocalFiles
from skillrun.syntax.diagnostics import SkillrunError

STORE: Question = {
    "id": "store",
    "text": "Where are the settings kept?",
    "choices": ["In the browser", "On the server, per user", "Nowhere"],
    "priority": "CRITICAL",
    "section": "Data",
    "notes": [{"perspective": "security", "note": "A shared computer keeps them."}],
}
OPEN: Question = {**STORE, "id": "open", "other": True}
SEVERAL: Question = {**STORE, "id": "several", "multiple": True}
BOTH: Question = {**STORE, "id": "both", "multiple": True, "other": True}
WORDS: Question = {"id": "words", "text": "Who asked for it?"}
SERVER = {"answer": "On the server, per user"}

Fill = Callable[[str], str]
CONFIG = Path(__file__).parents[3] / "config" / "skillrun.yaml"
PHRASES = Phrases.from_settings(yaml.safe_load(CONFIG.read_text("utf-8")))


def form_file(path: Path) -> tuple[LocalFiles, str]:
    return LocalFiles(ConfinedFolder(path.parent)), path.name


def read_filled(tmp_path: Path, questions: list[Question], fill: Fill) -> list[Answer]:
    path = tmp_path / f"form-{len(list(tmp_path.iterdir()))}.md"
    assert write_form(*form_file(path), questions)
    path.write_text(fill(path.read_text("utf-8")), "utf-8")
    return read_form(*form_file(path), questions, PHRASES).answers


def below_introduction(fill: Fill) -> Fill:
    """Apply a change only to the text after the introduction."""
    return lambda text: text[: text.index("## Q1")] + fill(text[text.index("## Q1") :])


def replacing(old: str, new: str) -> Fill:
    def fill(text: str) -> str:
        assert old in text
        return text.replace(old, new, 1)

    return fill


@pytest.mark.row("R6")
def test_a_form_shows_options_priority_section_notes_and_a_line_for_the_answer(tmp_path: Path) -> None:
    path = tmp_path / "QUESTIONS-001.md"
    write_form(*form_file(path), [OPEN, WORDS | {"default": ""}])
    assert path.read_text("utf-8").split("\n\n", 2)[0] == "# Questions"
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


SURE = WORDS | {"levels": ["certain", "likely", "guess"]}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("guess):", "guess): likely", {"answer": "Anna", "confidence": "likely"}),
        ("How sure (certain, likely, guess):", "**How sure**: G", {"answer": "Anna", "confidence": "guess"}),
        ("How sure (certain, likely, guess):", "", {"answer": "Anna"}),
    ],
)
@pytest.mark.row("R6", "B9")
def test_a_form_asks_for_the_confidence_of_an_answer(
    tmp_path: Path, old: str, new: str, expected: dict[str, Any]
) -> None:
    fill = below_introduction(lambda text: replacing(old, new)(text).replace("Answer:", "Answer: Anna"))
    assert read_filled(tmp_path, [SURE], fill) == [expected]


def test_a_form_shows_that_a_question_can_be_skipped(tmp_path: Path) -> None:
    write_form(*form_file(tmp_path / "form.md"), [WORDS | {"skip": True}, WORDS])
    assert (tmp_path / "form.md").read_text().count("It may be left open.") == 1


@pytest.mark.row("R6")
def test_an_unknown_confidence_level_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UnclearAnswers, match="`very` is not one of certain, likely, guess"):
        read_filled(tmp_path, [SURE], below_introduction(lambda text: text.replace("guess):", "guess): very") + "Anna"))


@pytest.mark.row("R6")
def test_an_existing_form_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "form.md"
    path.write_text("half filled")
    assert not write_form(*form_file(path), [STORE])
    assert path.read_text() == "half filled"
    assert [file.name for file in tmp_path.iterdir()] == ["form.md"]


def test_an_existing_form_is_not_overwritten_on_a_file_system_without_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "link", refuse)
    path = tmp_path / "form.md"
    assert write_form(*form_file(path), [STORE])
    path.write_text("half filled")
    assert not write_form(*form_file(path), [STORE])
    assert path.read_text() == "half filled"


@pytest.mark.row("R6")
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[ ] B.", "[x] B."),
        ("[ ] B.", "[X] B."),
        ("[ ] B.", "[ x ] B."),
        ("[ ] B.", "[x]B."),
        ("[ ] B.", "[✓] B."),
        ("- [ ] B.", "* [x] B."),
        ("- [ ] B.", "  - [x] B."),
        ("- [ ] B. On the server, per user", "- [x] on the  server, per USER"),
        ("- [ ] B. On the server, per user", "1. [x] **B. On the server, per user**"),
        ("Answer:", "Answer: on the server, per user"),
        ("Answer:", "**Answer:** On the server, per user"),
        ("Answer:", "**Answer**: On the server, per user"),
        ("Answer:", "answer : On the server, per user"),
        ("Answer:", "### Answer\n\nOn the server, per user"),
        ("Answer:", "Answer:\n\n\nOn the server, per user"),
        ("Answer:", "Answer:\n- On the server, per user"),
        ("Answer:", "Answer:\n- [x] B. On the server, per user"),
        ("- [ ] B", "- x B"),
        ("Answer:", "Answer: B"),
        ("Answer:", "Answer: b)"),
        ("Answer:", "Answer:\n\n(b)"),
        ("Answer:", "- Answer: **B.**"),
        ("Answer:", "Answer: option B"),
        ("Answer:", "Answer: B. On the server, per user"),
        ("Answer:", "B"),
        ("\nAnswer:", "On the server, per user\nAnswer:"),
        ("- [ ] A", "B\n\n- [ ] A"),
        ("Data · store", "Data · store: B"),
        ("\n\n", "\nB\n"),
    ],
)
def test_a_choice_can_be_ticked_or_written(tmp_path: Path, old: str, new: str) -> None:
    for question in (STORE, STORE | {"other": True}):
        assert read_filled(tmp_path, [question], below_introduction(replacing(old, new))) == [SERVER]


@pytest.mark.row("R6")
@pytest.mark.parametrize("words", ["B, as ever", "B - as ever", "B\nas ever", "B as ever", "2) – as ever"])
def test_a_leading_choice_is_the_answer_and_the_other_text_its_reason(tmp_path: Path, words: str) -> None:
    assert read_filled(tmp_path, [STORE], replacing("Answer:", f"Answer: {words}")) == [
        {**SERVER, "comment": "as ever"}
    ]


@pytest.mark.row("R6")
def test_a_part_of_the_text_behind_the_letter_is_kept_as_a_comment(tmp_path: Path) -> None:
    for question in (STORE, OPEN):
        assert read_filled(tmp_path, [question], replacing("Answer:", "Answer: b: on the server")) == [
            {**SERVER, "comment": "on the server"}
        ]


@pytest.mark.row("R6")
@pytest.mark.parametrize("words", ["on the server", "Serv", "on the server, per"])
def test_the_beginning_of_a_choice_is_asked_again_or_kept_as_text(tmp_path: Path, words: str) -> None:
    with pytest.raises(UnclearAnswers, match=f"`{words}` is not one of the choices; tick one"):
        read_filled(tmp_path, [STORE], replacing("Answer:", f"Answer: {words}"))
    assert read_filled(tmp_path, [OPEN], replacing("Answer:", f"Answer: {words}")) == [{"answer": words}]


@pytest.mark.row("R6")
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("- [ ] Other:", "- [x] Other: in a cookie"),
        ("- [ ] Other:", "- [ ] Other: in a cookie"),
        ("- [ ] Other:", "- [x] **Other**: in a cookie"),
        ("- [ ] Other:\n\nAnswer:", "- [x] Other:\n\nAnswer: in a cookie"),
        ("Answer:", "Answer: other: in a cookie"),
        ("Answer:", "Other: in a cookie"),
    ],
)
def test_the_other_option_takes_a_free_text_answer(tmp_path: Path, old: str, new: str) -> None:
    assert read_filled(tmp_path, [OPEN], replacing(old, new)) == [{"answer": "in a cookie"}]
    assert read_filled(tmp_path, [BOTH], replacing(old, new)) == [{"answer": ["in a cookie"]}]


@pytest.mark.row("R6")
@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("\n\n", "\n"),
        lambda text: text.replace("\n", "\r\n"),
        lambda text: (
            text.replace("\n>\n", "\n").replace("- security", "* security").replace("*Choose one.*", "_Choose one._")
        ),
        lambda text: text.replace("> Where are the settings kept?", "> Where are the\n> settings kept?"),
        lambda text: text.replace("- [ ]", "* [ ]"),
        lambda text: "\n".join(line for line in text.split("\n") if not line.startswith(">")),
        lambda text: text.replace(" · CRITICAL · Data · store", ""),
    ],
    ids=["no blank lines", "CRLF", "formatted", "wrapped", "bullets", "no quotation", "short headings"],
)
def test_reformatting_a_form_does_not_change_its_answers(tmp_path: Path, change: Fill) -> None:
    def fill(text: str) -> str:
        return change(text.replace("[ ] B.", "[x] B.", 1))

    assert read_filled(tmp_path, [STORE, WORDS | {"default": ""}], fill) == [SERVER, {}]


@pytest.mark.row("R6")
def test_text_below_a_tick_is_kept_as_a_comment(tmp_path: Path) -> None:
    def fill(text: str) -> str:
        return text.replace("[ ] B.", "[x] B.").replace("Answer:", "Answer: but not yet,\n- and not all")

    for question in (STORE, OPEN):
        assert read_filled(tmp_path, [question], fill) == [{**SERVER, "comment": "but not yet,\n- and not all"}]


@pytest.mark.row("R6")
@pytest.mark.parametrize(
    "words", ["in a cookie", "A cookie of ours,\n\nor two.", "Nowhere, or in a cookie", "Nowhere: or in a cookie"]
)
def test_free_text_is_an_answer_if_the_question_allows_it(tmp_path: Path, words: str) -> None:
    assert read_filled(tmp_path, [OPEN], replacing("Answer:", f"Answer: {words}")) == [{"answer": words}]


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
def test_free_text_is_kept_unchanged(tmp_path: Path, words: str) -> None:
    assert read_filled(tmp_path, [WORDS], replacing("Answer:", f"Answer:\n{words}")) == [{"answer": words}]


@pytest.mark.parametrize(
    ("fill", "answer"),
    [
        (lambda text: text.replace("[ ] A.", "[x] A.").replace("[ ] C.", "[x] C."), ["In the browser", "Nowhere"]),
        (replacing("Answer:", "Answer: nowhere; in the browser"), ["Nowhere", "In the browser"]),
        (
            replacing("Answer:", "Answer:\n- In the browser\n- On the server, per user"),
            ["In the browser", "On the server, per user"],
        ),
        (
            lambda text: text.replace("[ ] A.", "[x] A.").replace("Answer:", "Answer: nowhere"),
            ["In the browser", "Nowhere"],
        ),
    ],
)
def test_several_choices_are_accepted_if_the_question_allows_them(
    tmp_path: Path, fill: Fill, answer: list[str]
) -> None:
    for question in (SEVERAL, BOTH):
        assert read_filled(tmp_path, [question], fill) == [{"answer": answer}]


def test_several_choices_and_free_text_can_be_combined(tmp_path: Path) -> None:
    def fill(text: str) -> str:
        return text.replace("[ ] C.", "[x] C.").replace("Answer:", "Answer: in a cookie")

    assert read_filled(tmp_path, [BOTH], fill) == [{"answer": ["Nowhere", "in a cookie"]}]


@pytest.mark.row("R6")
def test_a_question_left_open_is_unanswered_or_takes_its_default(tmp_path: Path) -> None:
    questions: list[Question] = [STORE, WORDS, {**STORE, "id": "again", "default": "Nowhere"}, {**WORDS, "default": ""}]
    assert read_filled(tmp_path, questions, replacing("[ ] B.", "[x] B.")) == [
        SERVER,
        {},
        {"answer": "Nowhere", "answered_by": "default"},
        {},
    ]


@pytest.mark.row("R6")
def test_an_unchanged_form_is_still_waiting(tmp_path: Path) -> None:
    with pytest.raises(UnclearAnswers, match="nothing is filled in yet"):
        read_filled(tmp_path, [STORE, WORDS | {"default": ""}], lambda text: text)
    assert read_filled(tmp_path, [WORDS | {"default": ""}], lambda text: text) == [{}]


@pytest.mark.row("R6")
@pytest.mark.parametrize(
    ("question", "fill", "why"),
    [
        (
            STORE,
            lambda t: t.replace("[ ] A.", "[x] A.").replace("[ ] C.", "[x] C."),
            "19: Q1: `In the browser` and `Nowhere` are chosen, although the question takes only one answer",
        ),
        (
            OPEN,
            lambda t: t.replace("[ ] A.", "[x] A.").replace("Answer:", "Answer: nowhere"),
            "20: Q1: `In the browser` and `Nowhere` are chosen",
        ),
        (STORE, replacing("Answer:", "Answer: nowhere; in the browser"), "`Nowhere` and `In the browser` are chosen"),
        (STORE, replacing("Answer:", "Answer: in a cookie"), "19: Q1: `in a cookie` is not one of the choices"),
        (SEVERAL, replacing("Answer:", "Answer: nowhere, in a cookie"), "is not one of the choices"),
        (
            STORE,
            replacing("- [ ] C. Nowhere", "- [x] Somewhere"),
            "17: Q1: `- .x. Somewhere` is not one of the original choices",
        ),
        (STORE, replacing("[ ] C. Nowhere", "[ ] C. Nowhere <- this"), "is not one of the original choices"),
        (STORE, replacing("[ ] C.", "[-] C."), r"17: Q1: the box `\[-\]` is neither ticked nor empty"),
        (STORE, replacing("Answer:", "Answer: A and B"), "`In the browser` and `On the server, per user` are chosen"),
        (STORE, replacing("Answer:", "Answer: D"), "`D` is not one of the choices"),
        (STORE, replacing("Answer:", "Answer: A. Nowhere"), "`A. Nowhere` is not one of the choices"),
        (
            STORE | {"choices": ["No way", "No, never"]},
            replacing("Answer:", "Answer: no"),
            "`no` is not one of the choices",
        ),
        (STORE | {"choices": ["B", "A"]}, replacing("Answer:", "Answer: B"), "`B` may mean `B` or `A`"),
        (OPEN, lambda t: t.replace("[ ] A", "[x] A").replace("Answer:", "Answer: Z"), "`Z` is not one of the choices"),
        (OPEN, replacing("Answer:", "Answer: Z"), "`Z` is not one of the choices; tick one, or write `other:`"),
        (OPEN, replacing("[ ] Other", "[x] Other"), "`Other` is ticked without any text after it"),
        (
            OPEN,
            lambda t: t.replace("[ ] Other", "[x] Other").replace("Answer:", "Answer: B"),
            "`Other` is ticked without any text after it",
        ),
        (
            OPEN,
            lambda t: t.replace("[ ] A.", "[x] A.").replace("Other:", "Other: mine"),
            "`In the browser` and `mine` are",
        ),
        (SEVERAL, replacing("Answer:", "Answer: A, F"), "`A, F` is not one of the choices; tick one"),
        (
            STORE,
            lambda t: t.replace("- [ ] A. In the browser\n", "").replace("- [ ] C. Nowhere\n", ""),
            "some choices were removed",
        ),
        (WORDS, replacing("Answer:", "> me\n\nAnswer:"), "`> me` is not part of the form"),
        (
            WORDS,
            lambda t: t.replace("words", "whom").replace("Who asked", "Who pays"),
            "the question has changed to `Q1 · words`",
        ),
        (WORDS, lambda t: t + t[t.index("## Q1") :], "15: Q1: the heading `## Q1` occurs a second time here"),
        (WORDS, lambda t: t.replace("## Q1 · words\n", "").replace("Answer:", "Answer: me"), "`## Q1` is missing"),
    ],
)
def test_an_unclear_answer_is_reported_and_not_guessed(
    tmp_path: Path, question: Question, fill: Fill, why: str
) -> None:
    with pytest.raises(UnclearAnswers, match=why) as caught:
        read_filled(tmp_path, [question], fill)
    assert str(caught.value).startswith(f"{tmp_path}/form-0.md:")
    assert caught.value.next_step.endswith("form-0.md at these lines")


@pytest.mark.finding("FR89")
@pytest.mark.parametrize("question", [STORE, OPEN, SEVERAL, BOTH, WORDS], ids=lambda question: question["id"])
@pytest.mark.parametrize(
    "lines",
    ["Answer: A\nAnswer: B", "Answer: A\n\n**Answer:** B", "Answer:\nA\n\nanswer :\nB\n", "Answer: A\nAnswer: A"],
)
def test_two_answers_to_a_question_are_reported(tmp_path: Path, question: Question, lines: str) -> None:
    with pytest.raises(
        UnclearAnswers, match="Q1: there are two answers: `Answer:` occurs a second time here"
    ) as caught:
        read_filled(tmp_path, [question], below_introduction(replacing("Answer:", lines)))
    assert caught.value.readings[0].answer == {}
    assert "Answer" not in caught.value.readings[0].words


@pytest.mark.finding("FR89")
@pytest.mark.parametrize("lines", ["Answer:\n\nAnswer: B", "Answer: B\n\nAnswer:", "Answer:\nAnswer:\nB"])
def test_a_second_answer_line_without_text_does_not_count(tmp_path: Path, lines: str) -> None:
    for question in (STORE, OPEN):
        assert read_filled(tmp_path, [question], below_introduction(replacing("Answer:", lines))) == [SERVER]


@pytest.mark.finding("FR89")
def test_a_second_level_or_own_text_of_a_question_is_reported(tmp_path: Path) -> None:
    levels: Question = {**WORDS, "levels": ["low", "high"]}
    with pytest.raises(UnclearAnswers, match="`low` is a second level"):
        read_filled(tmp_path, [levels], replacing("How sure (low, high):", "How sure: high\nHow sure: low"))
    with pytest.raises(UnclearAnswers, match="`Other` has text a second time"):
        read_filled(tmp_path, [OPEN], replacing("- [ ] Other:", "- [x] Other: a disk\n- [x] Other: a tape"))


@pytest.mark.finding("FR90")
@pytest.mark.parametrize("question", [WORDS, OPEN, BOTH], ids=lambda question: question["id"])
def test_an_answer_has_at_most_100000_characters(tmp_path: Path, question: Question) -> None:
    words = "y" * 100_000
    (given,) = read_filled(tmp_path, [question], below_introduction(replacing("Answer:", f"Answer: {words}")))
    assert words in given["answer"]
    with pytest.raises(UnclearAnswers, match="the answer has 100,001 characters; at most 100,000 are allowed"):
        read_filled(tmp_path, [question], below_introduction(replacing("Answer:", f"Answer: {words}y")))
    with pytest.raises(InvalidAnswer, match="the answer has 100,001 characters; at most 100,000 are allowed"):
        validate_answer(question, f"{words}y")


def test_all_unclear_answers_are_reported_together(tmp_path: Path) -> None:
    with pytest.raises(UnclearAnswers) as caught:
        read_filled(
            tmp_path, [STORE, {**STORE, "text": "And the backups?"}], lambda text: text.replace("Answer:", "Answer: F")
        )
    assert [line.split(": ")[1] for line in str(caught.value).split("\n")] == ["Q1", "Q2"]


@pytest.mark.parametrize(
    ("old", "new"), [("## Q2 · when\n", ""), ("Answer:", "Answer: see\n```\nsome code")], ids=["deleted", "in code"]
)
def test_a_question_without_its_heading_is_not_read_as_part_of_another(tmp_path: Path, old: str, new: str) -> None:
    questions: list[Question] = [WORDS, {"id": "when", "text": "When is it needed?"}]
    with pytest.raises(UnclearAnswers, match="the heading `## Q2` is missing"):
        read_filled(tmp_path, questions, replacing(old, new))


def test_a_binary_file_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "form.md"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SkillrunError, match="UTF-8"):
        read_form(*form_file(path), [STORE])


# A simulated user

HOSTILE = [
    "# Heading", "## Q1", "## Q2 · q2", "- [x] A. one", "- [ ] B.", "[x] Other: me", "```", "~~~", "Answer: yes",
    "**Answer:** B", "> quoted", "---", "***", "A.", "B. two", "one", "other", "<!-- a comment", "| a | b |", "1. item",
    "    code", "\\# x", "\u202eabc", "\x1b[31m", "a_b*c`d", "plain words of a question", "(c)", "x", "",
]  # fmt: skip
PIECES = st.one_of(st.sampled_from(HOSTILE), st.text(max_size=30))
TEXTS = st.lists(PIECES, min_size=1, max_size=4).map("\n".join)
CHOICES = st.lists(PIECES.map(to_one_line).filter(bool), min_size=2, max_size=30, unique_by=str.casefold)
ANSWERS = st.lists(
    st.sampled_from(
        ["It is for the sales team.", "", "- [x] done", "- a list", "> said Ann", "No, never", "A. First", "1 or 2"]
    ),
    max_size=4,
).map(lambda lines: "\n".join(["We agree", *lines]).strip())
TICKS = ["[x]", "[X]", "[ x ]", "[✓]", "[x ]"]
METHODS = ["tick", "letter", "text", "label"]
LETTERS = ["{}", "{})", "({})", "**{}**", "{}.", "option {}"]
EDITS: list[Fill] = [
    lambda text: text,
    lambda text: text.replace("\n\nAnswer:", "\nAnswer:").replace(".*\n\n", ".*\n"),
    lambda text: text.replace("\n- [", "\n* ["),
    lambda text: text.replace("\n- [", "\n  + ["),
    lambda text: text.replace("\nAnswer:", "\n**Answer:**"),
    lambda text: text.replace("\nAnswer:", "\n- answer :"),
    lambda text: "\n".join(line for line in text.split("\n") if not line.startswith(">")),
]


@st.composite
def answered_sections(draw: st.DrawFn, question: Any) -> tuple[Fill, Any]:
    """Return a change of the question's section of the form that answers it, and the answer."""
    choices, several = question.get("choices") or [], question.get("multiple")
    edit = draw(st.sampled_from(EDITS))
    if draw(st.integers(0, 4)) == 0:
        return edit, None
    if not choices or (question["other"] and draw(st.booleans())):
        free_text = draw(ANSWERS).split("\n")[0] if choices else draw(ANSWERS)
        formats = (
            ["Answer: {}", "Answer: other: {}", "Other: {}"] if choices else ["Answer: {}", "Answer:\n\n{}\n", "{}"]
        )
        written = draw(st.sampled_from(formats)).format(free_text)
        assume(written.startswith(("Answer", "Other")) or "\n>" not in written)
        return lambda text: with_answer(edit(text), written), [free_text] if several else free_text
    picked = draw(st.lists(st.sampled_from(range(len(choices))), min_size=1, max_size=3 if several else 1, unique=True))
    method = draw(st.sampled_from(METHODS))
    if method == "tick":
        tick = draw(st.sampled_from(TICKS))
        answer = [choices[number] for number in sorted(picked)]
        return lambda text: edit(with_ticks(text, picked, tick)), answer if several else answer[0]
    answer = [choices[number] for number in picked]
    if method == "text":
        names = answer
    elif method == "label":
        names = [f"{choice_letter(number)}. {choices[number]}" for number in picked]
    else:
        form = draw(st.sampled_from(LETTERS))
        case = draw(st.sampled_from([str.upper, str.lower]))
        names = [form.format(case(choice_letter(number))) for number in picked]
    assume(all(ChoiceNames(question).match(name) == [choice] for name, choice in zip(names, answer, strict=True)))
    between = draw(st.sampled_from(["\n", "\n- ", ", ", " and "])) if method == "letter" else "\n"
    assume(
        not any(name.startswith(("## ", "```", "~~~")) for name in names)
    )  # these lines start other markdown elements
    assume(len(names) == 1 or not ChoiceNames(question).match(between.join(names)))
    return lambda text: with_answer(edit(text), f"Answer: {between.join(names)}"), answer if several else answer[0]


def with_answer(section: str, answer: str) -> str:
    """Replace the `Answer:` line of a section."""
    head, _, _ = section.rstrip().rpartition("\n")
    return f"{head}\n{answer}\n"


def with_ticks(section: str, picked: list[int], tick: str) -> str:
    for number in picked:
        head, box, tail = section.rpartition(f"\n- [ ] {choice_letter(number)}. ")
        assert box
        section = f"{head}\n- {tick} {choice_letter(number)}. {tail}"
    return section


@st.composite
def filled_forms(draw: st.DrawFn) -> tuple[list[Question], list[Fill], list[Answer]]:
    """Return questions, the user's change of each section, and the expected answers."""
    expected: list[Answer] = []
    questions, fills = [], []
    for number in range(draw(st.integers(1, 4))):
        question: Question = {"id": f"q{number + 1}", "text": draw(TEXTS), "default": ""}
        if draw(st.booleans()):
            question["notes"] = draw(st.lists(PIECES, max_size=2))
        if draw(st.booleans()):
            question |= {"choices": draw(CHOICES), "other": draw(st.booleans()), "multiple": draw(st.booleans())}
        fill, answer = draw(answered_sections(question))
        questions.append(question)
        fills.append(fill)
        expected.append({"answer": answer} if answer else {})
    return questions, fills, expected


def test_a_choice_that_looks_like_a_checkbox_can_be_written_out(tmp_path: Path) -> None:
    question: Question = {"id": "odd", "text": "Which?", "choices": ["# Heading", "- [ ] B."], "multiple": True}
    assert read_filled(tmp_path, [question], replacing("Answer:", "Answer: # Heading\n- [ ] B.")) == [
        {"answer": ["# Heading", "- [ ] B."]}
    ]
    reversed_question = question | {"choices": ["- [ ] B.", "# Heading"]}
    assert read_filled(tmp_path, [reversed_question], replacing("Answer:", "Answer: - [ ] B.\n# Heading")) == [
        {"answer": ["- [ ] B.", "# Heading"]}
    ]


@pytest.mark.slow
@pytest.mark.row("R6")
@given(filled_forms(), st.randoms(use_true_random=False), st.booleans())
def test_filled_forms_are_read_as_intended(
    tmp_path_factory: pytest.TempPathFactory,
    drawn: tuple[list[Question], list[Fill], list[Answer]],
    order: random.Random,
    crlf: bool,
) -> None:
    questions, fills, expected = drawn
    path = tmp_path_factory.mktemp("form") / "form.md"
    write_form(*form_file(path), questions)
    intro, *parts = path.read_text("utf-8").split("\n## Q")
    assert len(parts) == len(questions)
    sections = [fill(f"## Q{part}") for fill, part in zip(fills, parts, strict=True)]
    order.shuffle(sections)
    text = "\n".join([intro, *sections])
    path.write_bytes(text.replace("\n", "\r\n" if crlf else "\n").encode("utf-8-sig"))
    assert read_form(*form_file(path), questions, PHRASES).answers == expected


@given(TEXTS, st.lists(PIECES, max_size=3), st.none() | CHOICES, st.booleans(), st.booleans())
def test_an_unanswered_question_never_looks_answered(
    tmp_path_factory: pytest.TempPathFactory,
    text: str,
    notes: list[str],
    choices: list[str] | None,
    other: bool,
    multiple: bool,
) -> None:
    question: Question = {
        "id": "q",
        "text": text,
        "notes": notes,
        "choices": choices,
        "other": other,
        "multiple": multiple,
    }
    question["default"] = ""
    path = tmp_path_factory.mktemp("form") / "form.md"
    write_form(*form_file(path), [question, question])
    assert read_form(*form_file(path), [question, question], PHRASES).answers == [{}, {}]
