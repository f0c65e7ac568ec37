"""What people write into forms beside plain ticks: no answers, reasons, notes, corrections. No word of it is lost."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from skillrun.questions.answers import Question
from skillrun.questions.form import FormAnswers, UnclearAnswers, read_form, write_form
from skillrun.questions.phrases import Phrases
from skillrun.repository.confined_folder import ConfinedFolder
from skillrun.store.local.local_files import LocalFiles

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
        "TBD - ask Anna",
        "TBD (ask Anna)",
        "TBD – ask Anna",
        "I don't know, ask Maria",
        "No idea, sorry",
        "N/A. Ask Anna",
        "~",
        "later",
        "Open.",
        "pass",
    ],
)
def test_what_is_no_answer_leaves_the_question_open_and_stays_on_record(tmp_path: Path, words: str) -> None:
    for question in (PLAN, OPEN, SEVERAL, WORDS):
        assert read(tmp_path, [question], ("Answer:", f"Answer: {words}")).answers == [{"comment": words}]
    assert read(tmp_path, [OPEN], ("- [ ] Other:", f"- [x] Other: {words}")).answers == [{"comment": words}]


@pytest.mark.finding("FR1")
def test_a_choice_or_a_tick_is_an_answer_whatever_stands_beside_it(tmp_path: Path) -> None:
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
def test_words_that_only_begin_like_no_answer_are_one(tmp_path: Path, words: str) -> None:
    assert read(tmp_path, [WORDS], ("Answer:", f"Answer: {words}")).answers == [{"answer": words}]


@pytest.mark.finding("FR1")
def test_no_answer_goes_on_in_marks_and_lines_of_its_own(tmp_path: Path) -> None:
    for words in ("**TBD** - ask Anna", "(TBD) ask Anna", "TBD\nask Anna", "- TBD: ask Anna"):
        assert read(tmp_path, [WORDS], ("Answer:", f"Answer: {words}")).answers == [{"comment": words}]


@pytest.mark.finding("FR1")
def test_a_choice_that_is_spelled_like_no_answer_is_chosen_or_asked_about(tmp_path: Path) -> None:
    later: Question = {**PLAN, "choices": ["Later", "Unknown, ask Anna", "Open source"]}
    for words, choice in (("later", "Later"), ("Unknown, ask Anna", "Unknown, ask Anna"), ("C", "Open source")):
        assert read(tmp_path, [later], ("Answer:", f"Answer: {words}")).answers == [{"answer": choice}]
    named = read(tmp_path, [later], ("Answer:", "Answer: later, when it is warm"))
    assert named.answers == [{"answer": "Later", "comment": "when it is warm"}]
    open_later: Question = {**later, "other": True}
    for question in (later, open_later):
        with pytest.raises(UnclearAnswers, match="`open` may leave the question open, or mean `Open source`"):
            read(tmp_path, [question], ("Answer:", "Answer: open"))


@pytest.mark.finding("FR4")
@pytest.mark.parametrize(
    ("words", "comment"),
    [
        ("B (people plan)", "people plan"),
        ("B because it is kind", "because it is kind"),
        ("B!", ""),
        ('"B"', ""),
        ("“B”", ""),
        ("-> B", ""),
        ("→ **B**", ""),
        ("I choose B", ""),
        ("I choose B because it is kind", "because it is kind"),
        ("2", ""),
        ("2)", ""),
        ("2 because it is kind", "because it is kind"),
        ("B) because it is kind", "because it is kind"),
        ("B: it is kind", "it is kind"),
        ("B - it is kind", "it is kind"),
        ("B, and soon", "and soon"),
        ("B\n\nIt is kind.\nWe said so.", "It is kind.\nWe said so."),
        ("People first (it is kind)", "it is kind"),
        ("~~A~~ B", "~~A~~ B"),
        ("B <!-- it is kind -->", "it is kind"),
        ("B\n<!-- it is\nkind -->", "it is\nkind"),
        ("B (A is too expensive)", "A is too expensive"),
        ("I think B", "I think B"),
        ("I’d go for B", "I’d go for B"),
        ("I would go with B", "I would go with B"),
        ("I think B because A is dear", "I think B because A is dear"),
        ("B please", "please"),
        ("B i think", "i think"),
        ("B People first", ""),
    ],
)  # fmt: skip
def test_a_letter_with_words_is_its_choice_with_a_comment(tmp_path: Path, words: str, comment: str) -> None:
    beside = {"comment": comment} if comment else {}
    for question in (PLAN, OPEN):
        found = read(tmp_path, [question], ("Answer:", f"Answer: {words}"))
        assert found.answers == [{"answer": "People first", **beside}]


@pytest.mark.finding("FR4")
@pytest.mark.parametrize(
    "words",
    ["B or C", "B, or C", "B) or C", "B (or C)", "B: rather C", "B?", "A. B. Miller", "B, C", "B not C", "not B, C"],
)
def test_a_letter_that_is_taken_back_is_asked_about_or_kept_as_it_is(tmp_path: Path, words: str) -> None:
    with pytest.raises(UnclearAnswers) as raised:
        read(tmp_path, [PLAN], ("Answer:", f"Answer: {words}"))
    assert raised.value.words == [words]


@pytest.mark.finding("FR4")
@pytest.mark.parametrize(
    "words",
    ["B or maybe C", "Both A and C", "A and C are fine", "C and A are fine", "I think B or C", "B (rather C)",
     "B please or C", "A People first"],
)  # fmt: skip
def test_words_that_name_two_choices_are_asked_about_where_one_is_allowed(tmp_path: Path, words: str) -> None:
    for question in (PLAN, OPEN):
        with pytest.raises(UnclearAnswers, match=r"Land|People first|Money") as raised:
            read(tmp_path, [question], ("Answer:", f"Answer: {words}"))
        assert raised.value.words == [words]
    both = read(tmp_path, [SEVERAL], ("Answer:", "Answer: Both A and C"))
    assert both.answers == [{"answer": ["Land", "Money"]}]


@pytest.mark.finding("FR4")
@pytest.mark.parametrize("words", ["A bit of everything", "A lost hour is worst"])
def test_an_article_is_no_letter_where_it_is_in_doubt(tmp_path: Path, words: str) -> None:
    with pytest.raises(UnclearAnswers, match=f"`{words}` may mean `Land`"):
        read(tmp_path, [PLAN], ("Answer:", f"Answer: {words}"))
    assert read(tmp_path, [OPEN], ("Answer:", f"Answer: {words}")).answers == [{"answer": words}]


@pytest.mark.finding("FR4")
def test_indented_lines_below_other_belong_to_the_answer(tmp_path: Path) -> None:
    box = "- [ ] Other:"
    single: Question = {**SEVERAL, "multiple": False}
    for question in (OPEN, single):
        two = read(tmp_path, [question], (box, "- [x] Other: line one\n      line two\n\n  line three"))
        assert two.answers == [{"answer": "line one\nline two\nline three"}]
    assert read(tmp_path, [OPEN], (box, "- [x] Other:\n  below")).answers == [{"answer": "below"}]
    beside = read(tmp_path, [OPEN], (box, "- [x] Other: line one\n"), ("Answer:", "Answer: a remark"))
    assert beside.answers == [{"answer": "line one", "comment": "a remark"}]


@pytest.mark.finding("FR4")
@pytest.mark.parametrize("words", ["A cookie of ours", "5", "B vitamins", "I decide", "Land, or a boat", "E-mail"])
def test_words_of_ones_own_that_begin_like_a_choice_stay_ones_own(tmp_path: Path, words: str) -> None:
    assert read(tmp_path, [OPEN], ("Answer:", f"Answer: {words}")).answers == [{"answer": words}]


@pytest.mark.finding("FR4")
@pytest.mark.parametrize(
    ("changes", "record"),
    [
        ([("- [ ] B.", "- [☒] B.")], {}),
        ([("- [ ] B.", "- ☒ B.")], {}),
        ([("- [ ] A.", "- ☐ A."), ("- [ ] B.", "- ☑ B.")], {}),
        ([("- [ ] A. Land", "- [x] ~~A. Land~~"), ("- [ ] B.", "- [x] B.")], {}),
        ([("- [ ] A. Land", "~~- [x] A. Land~~"), ("- [ ] B.", "- [x] B.")], {}),
        ([("- [ ] A. Land", "<!-- - [x] A. Land -->"), ("- [ ] B.", "- [x] B.")], {"comment": "- [x] A. Land"}),
        ([("- [ ] B. People first", "- [ ] **B. People first**")], {}),
        ([("- [ ] B. People first", "**- [ ] B. People first**")], {}),
        ([("- [ ] B. People first", "- [x] B. People first (kind)")], {"comment": "(kind)"}),
        ([("- [ ] B. People first", "- [x] B. People first <- kind")], {"comment": "kind"}),
    ],
)  # fmt: skip
def test_marks_of_other_kinds_are_read(tmp_path: Path, changes: list[tuple[str, str]], record: dict[str, str]) -> None:
    for question in (PLAN, OPEN):
        assert read(tmp_path, [question], *changes).answers == [{"answer": "People first", **record}]


@pytest.mark.finding("FR4")
@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ([("- [ ] A. Land", "- [x] ~~A. Land~~")], "`Land` is ticked and struck out"),
        ([("- [ ] A. Land", "- [ ] ~~A. Land~~")], "some choices are struck out"),
        ([("[ ] A. Land", "[ ] **A. Land**"), ("[ ] B. People first", "[ ] **B. People first**")], "are chosen"),
        ([("## Q1 · plan", "## Q1 · plane")], "`## Q1 · plane` is not the heading of the form"),
    ],
)  # fmt: skip
def test_marks_that_could_mean_two_things_are_named(tmp_path: Path, changes: list[tuple[str, str]], why: str) -> None:
    with pytest.raises(UnclearAnswers, match=why):
        read(tmp_path, [PLAN], *changes)


@pytest.mark.finding("FR4")
def test_notes_outside_of_the_questions_are_kept_as_notes(tmp_path: Path) -> None:
    form: list[Question] = [OPEN, {**WORDS, "default": ""}]
    above = ("# Questions", "# Questions\n\nWe have no money.")
    own = ("## Q2", "## Q9 of mine\n\nAnd who pays?\n\n## Q2")
    end = ("Who asked for it?", "Who asked for it?")
    found = read(tmp_path, form, above, ("[ ] B", "[x] B"), own, end)
    assert found == ([{"answer": "People first"}, {}], "We have no money.\n\n## Q9 of mine\n\nAnd who pays?")


@pytest.mark.finding("FR4")
def test_a_heading_below_an_empty_free_answer_is_asked_about_and_belongs_to_no_answer_behind_a_dash(
    tmp_path: Path,
) -> None:
    both = ("Answer:", "Answer:\n\n## Notes\n\nNo money.")
    with pytest.raises(UnclearAnswers, match="`## Notes` may start the answer or a separate note"):
        read(tmp_path, [WORDS], both)
    dashed = read(tmp_path, [{**WORDS, "default": ""}], ("Answer:", "Answer: -\n\n## Notes\n\nNo money."))
    assert dashed == ([{"comment": "-"}], "## Notes\n\nNo money.")


def forms() -> st.SearchStrategy[list[Question]]:
    known: list[Question] = [PLAN, OPEN, SEVERAL, WORDS, {**WORDS, "default": ""}, {**OPEN, "default": ""}]
    return st.lists(st.sampled_from(known), min_size=1, max_size=3)


WRITTEN = st.sampled_from(
    ["zq", "zq ", "\nzq\n", "\n\n## zq\n\nzq\n", "<!-- zq -->", "<!--\nzq\n-->", " (zq)", "~~zq~~", "**zq**", "> zq\n",
     "  zq\n", "I think B zq", "TBD - zq", "B zq please", "B (zq)",
     "B) zq", "- [x] zq\n", "# zq\n", "TBD zq", "\nAnswer: zq\n", "[zq]", "☒ zq", "```\nzq\n```\n"]
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.finding("FR4")
@settings(max_examples=60)
@given(
    forms(),
    st.lists(st.tuples(st.floats(0, 1), WRITTEN), min_size=1, max_size=3),
    st.sampled_from(["", "[x] B", "[x] C", "[x] Other"]),
)
def test_words_written_anywhere_are_in_the_record_or_named(
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
    for number, (place, piece) in enumerate(written):
        at = round(place * len(text))
        word = f"zq{number}zq"
        words.append(word)
        text = text[:at] + piece.replace("zq", word) + text[at:]
    (folder / "form.md").write_text(text, "utf-8")
    try:
        found = read_form(LocalFiles(ConfinedFolder(folder)), "form.md", questions, PHRASES)
        known = f"{found.answers} {found.notes}"
    except UnclearAnswers as unclear:
        known = f"{unclear} {unclear.answers} {unclear.notes} {unclear.words}"
    broken = [word for word in words if word not in text]  # a later piece stands inside it
    assert [word for word in words if word not in known and word not in broken] == []
