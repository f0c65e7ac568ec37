"""Forms that a person fills in: written once, read as they are meant, never guessed."""

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

from skillrun.questions.answers import Answer, Question, to_one_line
from skillrun.questions.choice_matching import choice_letter, match_choices
from skillrun.questions.form import UnclearAnswers, read_form, write_form
from skillrun.questions.phrases import Phrases
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


def at(path: Path) -> tuple[LocalFiles, str]:
    return LocalFiles(ConfinedFolder(path.parent)), path.name


def filled(tmp_path: Path, questions: list[Question], fill: Fill) -> list[Answer]:
    path = tmp_path / f"form-{len(list(tmp_path.iterdir()))}.md"
    assert write_form(*at(path), questions)
    path.write_text(fill(path.read_text("utf-8")), "utf-8")
    return read_form(*at(path), questions, PHRASES).answers


def in_section(fill: Fill) -> Fill:
    """A change of what follows the introduction."""
    return lambda text: text[: text.index("## Q1")] + fill(text[text.index("## Q1") :])


def replaced(old: str, new: str) -> Fill:
    def fill(text: str) -> str:
        assert old in text
        return text.replace(old, new, 1)

    return fill


@pytest.mark.row("R6")
def test_a_form_reads_well_with_options_priority_section_notes_and_a_place_for_the_answer(tmp_path: Path) -> None:
    path = tmp_path / "QUESTIONS-001.md"
    write_form(*at(path), [OPEN, WORDS | {"default": ""}], "Questions of round 1")
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
def test_a_form_asks_how_sure_an_answer_is(tmp_path: Path, old: str, new: str, expected: dict[str, Any]) -> None:
    fill = in_section(lambda text: replaced(old, new)(text).replace("Answer:", "Answer: Anna"))
    assert filled(tmp_path, [SURE], fill) == [expected]


def test_a_form_says_that_a_question_may_be_skipped(tmp_path: Path) -> None:
    write_form(*at(tmp_path / "form.md"), [WORDS | {"skip": True}, WORDS])
    assert (tmp_path / "form.md").read_text().count("It may be left open.") == 1


@pytest.mark.row("R6")
def test_a_level_that_is_none_is_asked_about(tmp_path: Path) -> None:
    with pytest.raises(UnclearAnswers, match="`very` is not one of certain, likely, guess"):
        filled(tmp_path, [SURE], in_section(lambda text: text.replace("guess):", "guess): very") + "Anna"))


@pytest.mark.row("R6")
def test_a_form_that_is_there_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "form.md"
    path.write_text("half filled")
    assert not write_form(*at(path), [STORE])
    assert path.read_text() == "half filled"
    assert [one.name for one in tmp_path.iterdir()] == ["form.md"]


def test_a_form_is_not_overwritten_where_the_file_system_has_no_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "link", refuse)
    path = tmp_path / "form.md"
    assert write_form(*at(path), [STORE])
    path.write_text("half filled")
    assert not write_form(*at(path), [STORE])
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
        ("Answer:", "Answer: b: on the server"),
        ("Answer:", "B"),
        ("\nAnswer:", "On the server, per user\nAnswer:"),
        ("- [ ] A", "B\n\n- [ ] A"),
        ("Data · store", "Data · store: B"),
        ("\n\n", "\nB\n"),
    ],
)
def test_a_choice_is_ticked_or_written(tmp_path: Path, old: str, new: str) -> None:
    for question in (STORE, STORE | {"other": True}):
        assert filled(tmp_path, [question], in_section(replaced(old, new))) == [SERVER]


@pytest.mark.row("R6")
@pytest.mark.parametrize(
    "words", ["on the server", "Serv", "on the server, per", "B, as ever", "B - as ever", "B\nas ever"]
)
def test_a_beginning_or_a_letter_with_a_comment_is_a_choice_where_own_words_are_no_answer(
    tmp_path: Path, words: str
) -> None:
    question: Question = {
        **STORE,
        "choices": ["In the browser", "On the server, per user", "Service"][: 2 + (words == "Serv")],
    }
    answer = "Service" if words == "Serv" else "On the server, per user"
    comment = {"comment": "as ever"} if "as ever" in words else {}
    assert filled(tmp_path, [question], replaced("Answer:", f"Answer: {words}")) == [{"answer": answer, **comment}]


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
def test_other_is_an_answer_of_ones_own(tmp_path: Path, old: str, new: str) -> None:
    assert filled(tmp_path, [OPEN], replaced(old, new)) == [{"answer": "in a cookie"}]
    assert filled(tmp_path, [BOTH], replaced(old, new)) == [{"answer": ["in a cookie"]}]


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
def test_what_an_editor_or_a_person_does_to_the_lines_changes_no_answer(tmp_path: Path, change: Fill) -> None:
    def fill(text: str) -> str:
        return change(text.replace("[ ] B.", "[x] B.", 1))

    assert filled(tmp_path, [STORE, WORDS | {"default": ""}], fill) == [SERVER, {}]


@pytest.mark.row("R6")
def test_words_below_a_tick_are_kept(tmp_path: Path) -> None:
    def fill(text: str) -> str:
        return text.replace("[ ] B.", "[x] B.").replace("Answer:", "Answer: but not yet,\n- and not all")

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
        (lambda text: text.replace("[ ] A.", "[x] A.").replace("[ ] C.", "[x] C."), ["In the browser", "Nowhere"]),
        (replaced("Answer:", "Answer: nowhere; in the browser"), ["Nowhere", "In the browser"]),
        (
            replaced("Answer:", "Answer:\n- In the browser\n- On the server, per user"),
            ["In the browser", "On the server, per user"],
        ),
        (
            lambda text: text.replace("[ ] A.", "[x] A.").replace("Answer:", "Answer: nowhere"),
            ["In the browser", "Nowhere"],
        ),
    ],
)
def test_several_may_be_chosen_where_the_question_says_so(tmp_path: Path, fill: Fill, answer: list[str]) -> None:
    for question in (SEVERAL, BOTH):
        assert filled(tmp_path, [question], fill) == [{"answer": answer}]


def test_several_and_words_of_their_own_are_an_answer(tmp_path: Path) -> None:
    def fill(text: str) -> str:
        return text.replace("[ ] C.", "[x] C.").replace("Answer:", "Answer: in a cookie")

    assert filled(tmp_path, [BOTH], fill) == [{"answer": ["Nowhere", "in a cookie"]}]


@pytest.mark.row("R6")
def test_what_is_left_open_is_unanswered_or_takes_its_default(tmp_path: Path) -> None:
    questions: list[Question] = [STORE, WORDS, {**STORE, "id": "again", "default": "Nowhere"}, {**WORDS, "default": ""}]
    assert filled(tmp_path, questions, replaced("[ ] B.", "[x] B.")) == [
        SERVER,
        {},
        {"answer": "Nowhere", "answered_by": "default"},
        {},
    ]


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
            lambda t: t.replace("[ ] A.", "[x] A.").replace("[ ] C.", "[x] C."),
            "19: Q1: `In the browser` and `Nowhere` are chosen, but the question takes one answer",
        ),
        (
            OPEN,
            lambda t: t.replace("[ ] A.", "[x] A.").replace("Answer:", "Answer: nowhere"),
            "20: Q1: `In the browser` and `Nowhere` are chosen",
        ),
        (STORE, replaced("Answer:", "Answer: nowhere; in the browser"), "`Nowhere` and `In the browser` are chosen"),
        (STORE, replaced("Answer:", "Answer: in a cookie"), "19: Q1: `in a cookie` is not one of the choices"),
        (SEVERAL, replaced("Answer:", "Answer: nowhere, in a cookie"), "is not one of the choices"),
        (
            STORE,
            replaced("- [ ] C. Nowhere", "- [x] Somewhere"),
            "17: Q1: `- .x. Somewhere` is not one of the original choices",
        ),
        (STORE, replaced("[ ] C. Nowhere", "[ ] C. Nowhere <- this"), "is not one of the original choices"),
        (STORE, replaced("[ ] C.", "[-] C."), r"17: Q1: `\[-\]` is neither ticked nor empty"),
        (STORE, replaced("Answer:", "Answer: A and B"), "`In the browser` and `On the server, per user` are chosen"),
        (STORE, replaced("Answer:", "Answer: D"), "`D` is not one of the choices"),
        (STORE, replaced("Answer:", "Answer: A. Nowhere"), "`In the browser` and `Nowhere` are chosen"),
        (
            STORE | {"choices": ["No way", "No, never"]},
            replaced("Answer:", "Answer: no"),
            "may mean `No way` or `No, never`",
        ),
        (STORE | {"choices": ["B", "A"]}, replaced("Answer:", "Answer: B"), "`B` may mean `B` or `A`"),
        (
            OPEN,
            replaced("Answer:", "Answer: on the server"),
            "may mean `On the server, per user`; tick one, or write `other:`",
        ),
        (
            OPEN,
            replaced("Answer:", "Answer: Nowhere: or in a cookie"),
            "may mean `Nowhere`; tick one, or write `other:`",
        ),
        (OPEN, lambda t: t.replace("[ ] A", "[x] A").replace("Answer:", "Answer: Z"), "`Z` is not one of the choices"),
        (OPEN, replaced("Answer:", "Answer: Z"), "`Z` is not one of the choices; tick one, or write `other:`"),
        (OPEN, replaced("[ ] Other", "[x] Other"), "`Other` is ticked, but no text follows it"),
        (
            OPEN,
            lambda t: t.replace("[ ] A.", "[x] A.").replace("Other:", "Other: mine"),
            "`In the browser` and `mine` are",
        ),
        (SEVERAL, replaced("Answer:", "Answer: A, F"), "`A, F` may mean `In the browser`; tick one"),
        (
            STORE,
            lambda t: t.replace("- [ ] A. In the browser\n", "").replace("- [ ] C. Nowhere\n", ""),
            "some choices were removed",
        ),
        (WORDS, replaced("Answer:", "> me\n\nAnswer:"), "`> me` is not part of the form"),
        (
            WORDS,
            lambda t: t.replace("words", "whom").replace("Who asked", "Who pays"),
            "the question has changed to `Q1 · words`",
        ),
        (WORDS, lambda t: t + t[t.index("## Q1") :], "15: Q1: the heading `## Q1` occurs a second time here"),
        (WORDS, lambda t: t.replace("## Q1 · words\n", "").replace("Answer:", "Answer: me"), "`## Q1` is missing"),
    ],
)
def test_what_is_unclear_is_named_and_not_guessed(tmp_path: Path, question: Question, fill: Fill, why: str) -> None:
    with pytest.raises(UnclearAnswers, match=why) as raised:
        filled(tmp_path, [question], fill)
    assert str(raised.value).startswith(f"{tmp_path}/form-0.md:")
    assert raised.value.next_step.endswith("form-0.md at these lines")


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
    questions: list[Question] = [WORDS, {"id": "when", "text": "When is it needed?"}]
    with pytest.raises(UnclearAnswers, match="the heading `## Q2` is missing"):
        filled(tmp_path, questions, replaced(old, new))


def test_a_file_that_is_no_text_is_said(tmp_path: Path) -> None:
    path = tmp_path / "form.md"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SkillrunError, match="UTF-8"):
        read_form(*at(path), [STORE])


# A simulated person

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
).map(lambda lines: "\n".join(["We say so", *lines]).strip())
TICKS = ["[x]", "[X]", "[ x ]", "[✓]", "[x ]"]
WAYS = ["tick", "letter", "text", "label"]
LETTERS = ["{}", "{})", "({})", "**{}**", "{}.", "option {}"]
LIBERTIES: list[Fill] = [
    lambda text: text,
    lambda text: text.replace("\n\nAnswer:", "\nAnswer:").replace(".*\n\n", ".*\n"),
    lambda text: text.replace("\n- [", "\n* ["),
    lambda text: text.replace("\n- [", "\n  + ["),
    lambda text: text.replace("\nAnswer:", "\n**Answer:**"),
    lambda text: text.replace("\nAnswer:", "\n- answer :"),
    lambda text: "\n".join(line for line in text.split("\n") if not line.startswith(">")),
]


@st.composite
def answers_to(draw: st.DrawFn, question: Any) -> tuple[Fill, Any]:
    """One way to answer a question, in its section of the form, and the answer."""
    choices, several = question.get("choices") or [], question.get("multiple")
    liberty = draw(st.sampled_from(LIBERTIES))
    if draw(st.integers(0, 4)) == 0:
        return liberty, None
    if not choices or (question["other"] and draw(st.booleans())):
        own = draw(ANSWERS).split("\n")[0] if choices else draw(ANSWERS)
        ways = ["Answer: {}", "Answer: other: {}", "Other: {}"] if choices else ["Answer: {}", "Answer:\n\n{}\n", "{}"]
        written = draw(st.sampled_from(ways)).format(own)
        assume(written.startswith(("Answer", "Other")) or "\n>" not in written)
        return lambda text: swapped(liberty(text), written), [own] if several else own
    picked = draw(st.lists(st.sampled_from(range(len(choices))), min_size=1, max_size=3 if several else 1, unique=True))
    way = draw(st.sampled_from(WAYS))
    if way == "tick":
        tick = draw(st.sampled_from(TICKS))
        answer = [choices[number] for number in sorted(picked)]
        return lambda text: liberty(ticked(text, picked, tick)), answer if several else answer[0]
    answer = [choices[number] for number in picked]
    if way == "text":
        names = answer
    elif way == "label":
        names = [f"{choice_letter(number)}. {choices[number]}" for number in picked]
    else:
        form = draw(st.sampled_from(LETTERS))
        case = draw(st.sampled_from([str.upper, str.lower]))
        names = [form.format(case(choice_letter(number))) for number in picked]
    assume(all(match_choices(question, name) == [choice] for name, choice in zip(names, answer, strict=True)))
    between = draw(st.sampled_from(["\n", "\n- ", ", ", " and "])) if way == "letter" else "\n"
    assume(not any(name.startswith(("## ", "```", "~~~")) for name in names))  # markdown of its own
    assume(len(names) == 1 or not match_choices(question, between.join(names)))
    return lambda text: swapped(liberty(text), f"Answer: {between.join(names)}"), answer if several else answer[0]


def swapped(section: str, answer: str) -> str:
    """The section with something else in place of the word Answer."""
    head, _, _ = section.rstrip().rpartition("\n")
    return f"{head}\n{answer}\n"


def ticked(section: str, picked: list[int], tick: str) -> str:
    for number in picked:
        head, box, tail = section.rpartition(f"\n- [ ] {choice_letter(number)}. ")
        assert box
        section = f"{head}\n- {tick} {choice_letter(number)}. {tail}"
    return section


@st.composite
def filled_in(draw: st.DrawFn) -> tuple[list[Question], list[Fill], list[Answer]]:
    """Questions, what a person does with each, and what comes of it."""
    expected: list[Answer] = []
    questions, fills = [], []
    for number in range(draw(st.integers(1, 4))):
        question: Question = {"id": f"q{number + 1}", "text": draw(TEXTS), "default": ""}
        if draw(st.booleans()):
            question["notes"] = draw(st.lists(PIECES, max_size=2))
        if draw(st.booleans()):
            question |= {"choices": draw(CHOICES), "other": draw(st.booleans()), "multiple": draw(st.booleans())}
        fill, answer = draw(answers_to(question))
        questions.append(question)
        fills.append(fill)
        expected.append({"answer": answer} if answer else {})
    return questions, fills, expected


def test_a_choice_that_looks_like_a_box_can_be_written_out(tmp_path: Path) -> None:
    question: Question = {"id": "odd", "text": "Which?", "choices": ["# Heading", "- [ ] B."], "multiple": True}
    assert filled(tmp_path, [question], replaced("Answer:", "Answer: # Heading\n- [ ] B.")) == [
        {"answer": ["# Heading", "- [ ] B."]}
    ]
    turned = question | {"choices": ["- [ ] B.", "# Heading"]}
    assert filled(tmp_path, [turned], replaced("Answer:", "Answer: - [ ] B.\n# Heading")) == [
        {"answer": ["- [ ] B.", "# Heading"]}
    ]


@pytest.mark.slow
@pytest.mark.row("R6")
@given(filled_in(), st.randoms(use_true_random=False), st.booleans())
def test_what_a_person_fills_in_is_what_is_read(
    tmp_path_factory: pytest.TempPathFactory,
    drawn: tuple[list[Question], list[Fill], list[Answer]],
    order: random.Random,
    windows: bool,
) -> None:
    questions, fills, expected = drawn
    path = tmp_path_factory.mktemp("form") / "form.md"
    write_form(*at(path), questions)
    intro, *parts = path.read_text("utf-8").split("\n## Q")
    assert len(parts) == len(questions)
    sections = [fill(f"## Q{part}") for fill, part in zip(fills, parts, strict=True)]
    order.shuffle(sections)
    text = "\n".join([intro, *sections])
    path.write_bytes(text.replace("\n", "\r\n" if windows else "\n").encode("utf-8-sig"))
    assert read_form(*at(path), questions, PHRASES).answers == expected


@given(TEXTS, st.lists(PIECES, max_size=3), st.none() | CHOICES, st.booleans(), st.booleans())
def test_no_question_looks_answered_before_it_is(
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
    write_form(*at(path), [question, question])
    assert read_form(*at(path), [question, question], PHRASES).answers == [{}, {}]
