"""Text in forms other than plain ticks (refusals, reasons, notes, corrections) is kept or reported, never lost."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from skillrun.questions.answers import Question
from skillrun.questions.form import FormAnswers, UnclearAnswers, parse_form, read_form, write_form
from skillrun.questions.written_answers import Phrases
from skillrun.repository.confined_folder import ConfinedFolder
from skillrun.store.local.local_files import LocalFiles
from skillrun.syntax.source import Source

CONFIG = Path(__file__).parents[3] / "config" / "skillrun.yaml"
PHRASES = Phrases.from_settings(yaml.safe_load(CONFIG.read_text("utf-8")))
PLAN: Question = {"id": "plan", "text": "Which plan?", "choices": ["Land", "People first", "Money"]}
OPEN: Question = {**PLAN, "other": True}
SEVERAL: Question = {**PLAN, "multiple": True, "other": True}
WORDS: Question = {"id": "words", "text": "Who asked for it?"}


def read(folder: Path, questions: list[Question], *changes: tuple[str, str]) -> FormAnswers:
    path = folder / f"form-{len(list(folder.iterdir()))}.md"
    write_form(LocalFiles(ConfinedFolder(folder)), path.name, questions)
    text = path.read_text("utf-8")
    for old, new in changes:
        assert old in text
        start = text.index("## Q1") if old != "# Questions" and "introduction" not in old else 0
        text = text[:start] + text[start:].replace(old, new, 1)
    path.write_text(text, "utf-8")
    return read_form(LocalFiles(ConfinedFolder(folder)), path.name, questions, PHRASES)


@pytest.mark.finding("FR1")
@pytest.mark.parametrize(
    "words",
    [
        "TBD",
        "tbd.",
        "?",
        "???",
        "-",
        "—",
        "n/a",
        "N/A",
        "skip",
        "don't know",
        "I don’t know",
        "(TBD)",
        "- TBD",
        "…",
        "weiß nicht",
        "TBD?",
        "NA",
        "Don't know yet",
        "not yet decided",
        "~",
        "later",
        "Open.",
        "pass",
    ],
)
def test_a_non_answer_leaves_the_question_open_and_is_kept_as_a_comment(tmp_path: Path, words: str) -> None:
    for question in (PLAN, OPEN, SEVERAL, WORDS):
        assert read(tmp_path, [question], ("Answer:", f"Answer: {words}")).answers == [{"comment": words}]
    assert read(tmp_path, [OPEN], ("- [ ] Other:", f"- [x] Other: {words}")).answers == [{"comment": words}]


@pytest.mark.finding("FR1")
def test_a_choice_or_a_tick_is_an_answer_even_with_a_non_answer(tmp_path: Path) -> None:
    skip: Question = {**PLAN, "choices": ["Skip", "Go"]}
    assert read(tmp_path, [skip], ("Answer:", "Answer: skip")).answers == [{"answer": "Skip"}]
    ticked = read(tmp_path, [OPEN], ("[ ] B", "[x] B"), ("Answer:", "Answer: TBD"))
    assert ticked.answers == [{"answer": "People first", "comment": "TBD"}]
    assert read(tmp_path, [WORDS], ("Answer:", "Answer: skip the line")).answers == [{"answer": "skip the line"}]


@pytest.mark.finding("FR1")
@pytest.mark.parametrize(
    "words",
    [
        "Open source",
        "Pass the ball",
        "Later, in spring",
        "Skip-level talks",
        "None of them, because it rains",
        "I don't know how, so we ask",
        "- ask, then go",
    ],
)
def test_text_that_only_starts_like_a_non_answer_is_an_answer(tmp_path: Path, words: str) -> None:
    assert read(tmp_path, [WORDS], ("Answer:", f"Answer: {words}")).answers == [{"answer": words}]


@pytest.mark.finding("FR1")
@pytest.mark.parametrize(
    "words",
    [
        "TBD - ask Anna", "TBD (ask Anna)", "TBD – ask Anna", "I don't know, ask Maria", "No idea, sorry",
        "N/A. Ask Anna", "**TBD** - ask Anna", "(TBD) ask Anna", "TBD\nask Anna", "- TBD: ask Anna",
        "I don't know, but take the cheapest", "Not sure. Then the boat.",
    ],
)  # fmt: skip
def test_a_non_answer_with_more_text_is_asked_again_or_kept_as_an_answer(tmp_path: Path, words: str) -> None:
    change = ("Answer:", f"Answer: {words}")
    for question, answer in ((OPEN, words), (SEVERAL, [words]), (WORDS, words)):
        assert read(tmp_path, [question], change).answers == [{"answer": answer}]
    with pytest.raises(UnclearAnswers, match="is not one of the choices") as caught:
        read(tmp_path, [PLAN], change)
    assert [reading.words for reading in caught.value.readings] == [words]


@pytest.mark.finding("FR1")
def test_a_choice_spelled_like_a_non_answer_is_chosen_or_reported(tmp_path: Path) -> None:
    later: Question = {**PLAN, "choices": ["Later", "Unknown, ask Anna", "Open source"]}
    for words, choice in (("later", "Later"), ("Unknown, ask Anna", "Unknown, ask Anna"), ("C", "Open source")):
        assert read(tmp_path, [later], ("Answer:", f"Answer: {words}")).answers == [{"answer": choice}]
    commented = read(tmp_path, [later], ("Answer:", "Answer: later, when it is warm"))
    assert commented.answers == [{"answer": "Later", "comment": "when it is warm"}]
    with pytest.raises(UnclearAnswers, match="`open` is not one of the choices"):
        read(tmp_path, [later], ("Answer:", "Answer: open"))
    assert read(tmp_path, [{**later, "other": True}], ("Answer:", "Answer: open")).answers == [{"answer": "open"}]


@pytest.mark.finding("FR4")
@pytest.mark.parametrize(
    ("words", "comment"),
    [
        ("B (people plan)", "people plan"),
        ("B because it is kind", "because it is kind"),
        ("B!", ""),
        ('"B"', ""),
        ("“B”", ""),
        ("2", ""),
        ("2)", ""),
        ("2 because it is kind", "because it is kind"),
        ("B) because it is kind", "because it is kind"),
        ("B: it is kind", "it is kind"),
        ("B - it is kind", "it is kind"),
        ("B, and soon", "and soon"),
        ("B\n\nIt is kind.\nWe agreed.", "It is kind.\nWe agreed."),
        ("People first (it is kind)", "it is kind"),
        ("B because A is dear", "because A is dear"),
        ("B, weil A zu teuer ist", "weil A zu teuer ist"),
        ("option B, but soon", "but soon"),
        ("B, since it is kind", "since it is kind"),
        ("2) – it is kind", "it is kind"),
        ("People first because it is kind", "because it is kind"),
        ("B <!-- it is kind -->", "<!-- it is kind -->"),
        ("B\n<!-- it is\nkind -->", "it is\nkind"),
        ("B People first", ""),
    ],
)  # fmt: skip
def test_a_letter_followed_by_text_is_a_choice_with_a_comment(tmp_path: Path, words: str, comment: str) -> None:
    record = {"comment": comment} if comment else {}
    for question in (PLAN, OPEN):
        form = read(tmp_path, [question], ("Answer:", f"Answer: {words}"))
        assert form.answers == [{"answer": "People first", **record}]


@pytest.mark.finding("FR4")
@pytest.mark.parametrize(("words", "comment"), [("B please", "please"), ("B i think", "i think")])
def test_text_behind_a_letter_is_its_comment_or_part_of_free_text(tmp_path: Path, words: str, comment: str) -> None:
    change = ("Answer:", f"Answer: {words}")
    assert read(tmp_path, [PLAN], change).answers == [{"answer": "People first", "comment": comment}]
    assert read(tmp_path, [OPEN], change).answers == [{"answer": words}]


@pytest.mark.finding("FR4")
@pytest.mark.parametrize(
    "words",
    ["-> B", "→ **B**", "I choose B", "I choose B because it is kind", "~~A~~ B", "B (A is too expensive)",
     "I think B", "I’d go for B", "I would go with B", "I think B because A is dear", "B or maybe C", "Both A and C",
     "A and C are fine", "C and A are fine", "I think B or C", "B (rather C)", "B please or C", "A People first"],
)  # fmt: skip
def test_other_text_about_choices_is_asked_again_or_kept_as_text(tmp_path: Path, words: str) -> None:
    change = ("Answer:", f"Answer: {words}")
    with pytest.raises(UnclearAnswers, match="is not one of the choices; tick one") as caught:
        read(tmp_path, [PLAN], change)
    assert [reading.words for reading in caught.value.readings] == [words]
    assert read(tmp_path, [OPEN], change).answers == [{"answer": words}]
    assert read(tmp_path, [SEVERAL], change).answers == [{"answer": [words]}]


@pytest.mark.finding("FR4")
@pytest.mark.parametrize(
    "words",
    [
        "B or C",
        "B, or C",
        "B if it is cheap, otherwise C",
        "B, right?",
        "1 - 2",
        "No decision yet",
        "B) or C",
        "B (or C)",
        "B: rather C",
        "B?",
        "A. B. Miller",
        "B, C",
        "B not C",
        "not B, C",
    ],
)
def test_a_letter_that_is_retracted_is_reported(tmp_path: Path, words: str) -> None:
    with pytest.raises(UnclearAnswers) as caught:
        read(tmp_path, [PLAN], ("Answer:", f"Answer: {words}"))
    assert [reading.words for reading in caught.value.readings] == [words]


@pytest.mark.finding("FR4")
@pytest.mark.parametrize("words", ["A bit of everything", "A lost hour is worst"])
def test_an_article_is_not_read_as_a_letter(tmp_path: Path, words: str) -> None:
    with pytest.raises(UnclearAnswers, match=f"`{words}` is not one of the choices"):
        read(tmp_path, [PLAN], ("Answer:", f"Answer: {words}"))
    assert read(tmp_path, [OPEN], ("Answer:", f"Answer: {words}")).answers == [{"answer": words}]


@pytest.mark.finding("FR4")
def test_indented_lines_below_other_belong_to_the_answer(tmp_path: Path) -> None:
    box = "- [ ] Other:"
    single: Question = {**SEVERAL, "multiple": False}
    for question in (OPEN, single):
        with_lines = read(tmp_path, [question], (box, "- [x] Other: line one\n      line two\n\n  line three"))
        assert with_lines.answers == [{"answer": "line one\n    line two\n\nline three"}]
    assert read(tmp_path, [OPEN], (box, "- [x] Other:\n  below")).answers == [{"answer": "below"}]
    with_remark = read(tmp_path, [OPEN], (box, "- [x] Other: line one\n"), ("Answer:", "Answer: a remark"))
    assert with_remark.answers == [{"answer": "line one", "comment": "a remark"}]


@pytest.mark.finding("FR4")
@pytest.mark.parametrize("words", ["A cookie of ours", "5", "B vitamins", "I decide", "Land, or a boat", "E-mail"])
def test_free_text_that_starts_like_a_choice_stays_free_text(tmp_path: Path, words: str) -> None:
    assert read(tmp_path, [OPEN], ("Answer:", f"Answer: {words}")).answers == [{"answer": words}]


@pytest.mark.finding("FR4")
@pytest.mark.parametrize(
    ("changes", "record"),
    [
        ([("- [ ] B.", "- [☒] B.")], {}),
        ([("- [ ] B.", "- ☒ B.")], {}),
        ([("- [ ] A.", "- ☐ A."), ("- [ ] B.", "- ☑ B.")], {}),
        ([("- [ ] A. Land", "<!-- - [x] A. Land -->"), ("- [ ] B.", "- [x] B.")], {"comment": "- [x] A. Land"}),
        ([("- [ ] B. People first", "- [x] B. People first (kind)")], {"comment": "(kind)"}),
        ([("- [ ] B. People first", "- [x] B. People first <- kind")], {"comment": "kind"}),
    ],
)  # fmt: skip
def test_other_kinds_of_marks_are_read(tmp_path: Path, changes: list[tuple[str, str]], record: dict[str, str]) -> None:
    for question in (PLAN, OPEN):
        assert read(tmp_path, [question], *changes).answers == [{"answer": "People first", **record}]


@pytest.mark.finding("FR4")
@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ([("- [ ] A. Land", "- [x] ~~A. Land~~")], "`- .x. ~~A. Land~~` is not one of the original choices"),
        ([("- [ ] A. Land", "- [ ] ~~A. Land~~")], "`- . . ~~A. Land~~` is not one of the original choices"),
        ([("- [ ] A. Land", "~~- [x] A. Land~~"), ("- [ ] B.", "- [x] B.")], "is not one of the original choices"),
        ([("- [ ] A. Land", "- [x] ~~A. Land~~"), ("- [ ] B.", "- [x] B.")], "is not one of the original choices"),
        ([("- [ ] B. People first", "- [ ] **B. People first**")], "is emphasized, but not ticked"),
        ([("- [ ] B. People first", "**- [ ] B. People first**")], "is emphasized, but not ticked"),
        ([("[ ] A. Land", "[ ] **A. Land**"), ("[ ] B. People", "[ ] **B. People**")], "is emphasized, but not ticked"),
        ([("## Q1 · plan", "## Q1 · plane")], "`## Q1 · plane` is not the heading of the form"),
    ],
)  # fmt: skip
def test_ambiguous_marks_are_reported(tmp_path: Path, changes: list[tuple[str, str]], why: str) -> None:
    for question in (PLAN, OPEN):
        with pytest.raises(UnclearAnswers, match=why):
            read(tmp_path, [question], *changes)


@pytest.mark.finding("FR4")
def test_text_outside_of_the_questions_is_kept_as_notes(tmp_path: Path) -> None:
    form: list[Question] = [OPEN, {**WORDS, "default": ""}]
    introduction = ("# Questions", "# Questions\n\nWe have no money.")
    section = ("## Q2", "## Q9 of mine\n\nAnd who pays?\n\n## Q2")
    end = ("Who asked for it?", "Who asked for it?")
    answers = read(tmp_path, form, introduction, ("[ ] B", "[x] B"), section, end)
    assert answers == ([{"answer": "People first"}, {}], "We have no money.\n\n## Q9 of mine\n\nAnd who pays?")


@pytest.mark.finding("FR4")
def test_a_heading_after_an_empty_answer_is_reported_and_after_a_dash_it_is_a_note(
    tmp_path: Path,
) -> None:
    change = ("Answer:", "Answer:\n\n## Notes\n\nNo money.")
    with pytest.raises(UnclearAnswers, match="`## Notes` may start the answer or a separate note"):
        read(tmp_path, [WORDS], change)
    dashed = read(tmp_path, [{**WORDS, "default": ""}], ("Answer:", "Answer: -\n\n## Notes\n\nNo money."))
    assert dashed == ([{"comment": "-"}], "## Notes\n\nNo money.")


def test_a_form_is_parsed_into_answers_with_the_lines_that_are_unclear() -> None:
    text = """
## Q1 · plan
> Which plan?
- [ ] A. Land
- [ ] B. People first
- [ ] C. Money
Answer: the sea
## Q2
Answer:
Anna,
as ever
## Notes
none
"""
    readings, notes = parse_form(Source.of(text.lstrip()), [PLAN, WORDS], PHRASES)
    assert readings == [
        ({}, ((6, "`the sea` is not one of the choices; tick one"),), "the sea"),
        ({"answer": "Anna,\nas ever\n## Notes\nnone"}, (), "Anna,\nas ever\n## Notes\nnone"),
    ]
    assert notes == ""


def forms() -> st.SearchStrategy[list[Question]]:
    questions: list[Question] = [PLAN, OPEN, SEVERAL, WORDS, {**WORDS, "default": ""}, {**OPEN, "default": ""}]
    return st.lists(st.sampled_from(questions), min_size=1, max_size=3)


INSERTIONS = st.sampled_from(
    ["zq", "zq ", "\nzq\n", "\n\n## zq\n\nzq\n", "<!-- zq -->", "<!--\nzq\n-->", " (zq)", "~~zq~~", "**zq**", "> zq\n",
     "  zq\n", "I think B zq", "TBD - zq", "B zq please", "B (zq)",
     "B) zq", "- [x] zq\n", "# zq\n", "TBD zq", "\nAnswer: zq\n", "[zq]", "☒ zq", "```\nzq\n```\n"]
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.finding("FR4")
@settings(max_examples=60)
@given(
    forms(),
    st.lists(st.tuples(st.floats(0, 1), INSERTIONS), min_size=1, max_size=3),
    st.sampled_from(["", "[x] B", "[x] C", "[x] Other"]),
)
def test_text_written_anywhere_is_recorded_or_reported(
    tmp_path_factory: pytest.TempPathFactory,
    questions: list[Question],
    written: list[tuple[float, str]],
    ticked: str,
) -> None:
    folder = tmp_path_factory.mktemp("form")
    write_form(LocalFiles(ConfinedFolder(folder)), "form.md", questions)
    text = (folder / "form.md").read_text("utf-8")
    if ticked:
        text = text.replace(ticked.replace("x", " "), ticked)
    words = []
    for number, (position, piece) in enumerate(written):
        index = round(position * len(text))
        word = f"zq{number}zq"
        words.append(word)
        text = text[:index] + piece.replace("zq", word) + text[index:]
    (folder / "form.md").write_text(text, "utf-8")
    try:
        form = read_form(LocalFiles(ConfinedFolder(folder)), "form.md", questions, PHRASES)
        recorded = f"{form.answers} {form.notes}"
    except UnclearAnswers as unclear:
        recorded = f"{unclear} {unclear.readings} {unclear.notes}"
    split_words = [word for word in words if word not in text]  # a later insertion is inside the word
    assert [word for word in words if word not in recorded and word not in split_words] == []


@pytest.mark.finding("FR83")
@pytest.mark.parametrize("comment", ["<!-- B -->", "<!--don't know-->", "<!--\nB because it is near\n-->"])
def test_a_comment_on_the_line_of_the_answer_is_no_answer(tmp_path: Path, comment: str) -> None:
    words = comment[4:-3].strip()
    for question in (PLAN, OPEN, SEVERAL, WORDS):
        assert read(tmp_path, [question], ("Answer:", f"Answer: {comment}")).answers == [{"comment": words}]
        answered = read(tmp_path, [question], ("Answer:", f"Answer: {comment}\nLand"))
        assert answered.answers[0].get("answer") in ("Land", ["Land"])
        assert answered.answers[0]["comment"] == words


@pytest.mark.finding("FR83")
def test_a_comment_behind_a_ticked_choice_is_kept_without_its_marks(tmp_path: Path) -> None:
    ticked = read(tmp_path, [OPEN], ("- [ ] B. People first", "- [x] B. People first <!-- it is kind -->"))
    assert ticked.answers == [{"answer": "People first", "comment": "it is kind"}]


@pytest.mark.finding("FR85")
@pytest.mark.parametrize("words", ["\u200bB", "B\ufeff", "\u00adB\u200d", "\u2060B because it is kind\u200b"])
def test_characters_that_cannot_be_seen_do_not_hide_a_choice(tmp_path: Path, words: str) -> None:
    assert read(tmp_path, [OPEN], ("Answer:", f"Answer: {words}")).answers[0]["answer"] == "People first"


@pytest.mark.finding("FR87")
@pytest.mark.parametrize("blank", ["", "  ", "\n\t", "\u00a0"])
def test_a_blank_choice_is_not_offered(tmp_path: Path, blank: str) -> None:
    question: Question = {**OPEN, "choices": [blank, "Land", blank, "Money"]}
    assert read(tmp_path, [question], ("Answer:", "Answer: B")).answers == [{"answer": "Money"}]
    text = next(tmp_path.iterdir()).read_text("utf-8")
    assert [line for line in text.splitlines() if line.startswith("- [ ]")] == [
        "- [ ] A. Land", "- [ ] B. Money", "- [ ] Other:",
    ]  # fmt: skip
    assert read(tmp_path, [{**PLAN, "choices": [blank]}], ("Answer:", "Answer: the sea")).answers == [
        {"answer": "the sea"}
    ]
