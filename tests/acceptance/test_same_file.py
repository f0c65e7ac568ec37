"""Steps in no order that write the same file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.conftest import Call, Make

ROLE = "---\nname: host\ndescription: Writes.\nmodel: fast\n---\nYou write.\n"
EACH = """---
name: notes
inputs:
  titles(array): {type: string, default: [Café, Cafe, Tea], description: titles}
phases:
  files:
---
Notes.
"""
KNOWN = """---
kind: phase
steps:
  - id: parts
    each: "{{ inputs.titles }}"
    as: title
    steps:
      - {id: one, agent: host, writes: "notes/{{ title | slug }}.md"}
---
## one
Write on {{ title }}.
"""
LATE = """---
kind: phase
steps:
  - id: parts
    each: "{{ inputs.titles }}"
    as: title
    at_once: 1
    steps:
      - {id: name, agent: host, output: {name: string}}
      - {id: one, write: "notes/{{ name.data.name }}.md"}
---
## name
Name {{ title }}.

## one
On {{ title }}.
"""
SIDES = """---
name: notes
inputs:
  title: string, the title
parallel: true
phases:
  left:
  right: {after: []}
---
Notes.
"""
SIDE = """---
kind: phase
steps:
  - {id: note, write: "{{ inputs.title }}.md"}
---
## note
From one side.
"""
SCRIPT = '- {address: "*/name/*", data: {name: same}}\n'


def write_files(folder: Path, files: dict[str, str]) -> None:
    for path, text in {"roles/host.md": ROLE, **files}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


@pytest.mark.finding("FX6")
def test_items_whose_file_names_are_known_fail_before_any_call(project: Make, skillrun: Call) -> None:
    folder = project()
    write_files(folder, {"workflows/notes.md": EACH, "skills/notes/files.md": KNOWN})
    done = skillrun("notes", "--name", "n", "--model", "scripted:default")
    assert (done.code, "failed: files: `parts`: Café and Cafe both write `notes/cafe.md`" in done.out) == (1, True)
    assert "0 calls" in done.out


@pytest.mark.finding("FX6")
def test_the_second_item_that_writes_a_file_fails_before_further_items(project: Make, skillrun: Call) -> None:
    folder = project()
    write_files(folder, {"workflows/notes.md": EACH, "skills/notes/files.md": LATE, "script.yaml": SCRIPT})
    done = skillrun("notes", "--name", "n", "--script", "script.yaml")
    assert (done.code, "failed: files: `parts`: Café and Cafe both write `notes/same.md`" in done.out) == (1, True)
    assert "2 calls" in done.out
    assert "edited manually" not in done.out
    assert (folder / "runs" / "n" / "notes" / "same.md").read_text() == "On Café.\n"


@pytest.mark.finding("FX6")
def test_parallel_phases_that_write_the_same_file_fail(project: Make, skillrun: Call) -> None:
    folder = project()
    sides = {f"skills/notes/{name}.md": SIDE for name in ("left", "right")}
    write_files(folder, {"workflows/notes.md": SIDES, **sides})
    done = skillrun("notes", "tea", "--name", "n", "--model", "scripted:default")
    assert (done.code, "`left/note` and `right/note` both write `tea.md`" in done.out) == (1, True), done


PASSES = """---
kind: phase
steps:
  - id: cycle
    at_most: 2
    repeat: [STEP]
---
## one
Pass {{ pass.index }}.
"""
LIST = "{id: one, agent: \"{{ members('host', inputs.titles[:pass.index] | reverse) }}\", writes: NAME}"
ITEM = (
    "{id: parts, each: '{{ inputs.titles[pass.index - 1:pass.index] }}', "
    "steps: [{id: one, write: '{{ item | slug }}.md'}]}"
)
SINGLE = '{id: one, agent: "host@{{ inputs.titles[:pass.index] | last | default() }}", writes: NAME}'
MODELS = ("--titles", "scripted:a.b", "--titles", "scripted:a-b")
TEXTS = """
- {address: "*cycle#1/*a.b/*", text: first of a.b}
- {address: "*cycle#2/*a.b/*", text: second of a.b}
- {address: "*a-b/*", text: from a-b}
"""


@pytest.mark.finding("FX6")
@pytest.mark.parametrize("name", ["'{{ member.model | slug }}.md'", "a-b.md"])
def test_members_of_later_passes_do_not_overwrite_the_file_of_another(project: Make, skillrun: Call, name: str) -> None:
    folder = project()
    phase = PASSES.replace("STEP", LIST.replace("NAME", name))
    write_files(folder, {"workflows/notes.md": EACH, "skills/notes/files.md": phase, "script.yaml": TEXTS})
    done = skillrun("notes", "--name", "n", *MODELS, "--script", "script.yaml")
    assert done.code == 0, done.err
    texts = {file.name: file.read_text() for file in (folder / "runs" / "n").glob("a-b*.md")}
    assert texts == {"a-b.md": "second of a.b\n", "a-b-2.md": "from a-b\n"}
    assert "one: a-b.md belongs to another member; the reply of host@scripted:a-b is in a-b-2.md" in done.out


@pytest.mark.finding("FX6")
def test_a_single_member_of_each_pass_has_its_own_file_only_if_the_name_mentions_it(
    project: Make, skillrun: Call
) -> None:
    folder = project()
    for run, name, files in (("n", "'{{ member.model | slug }}.md'", 2), ("relay", "a-b.md", 1)):
        phase = PASSES.replace("STEP", SINGLE.replace("NAME", name))
        write_files(folder, {"workflows/notes.md": EACH, "skills/notes/files.md": phase, "script.yaml": TEXTS})
        done = skillrun("notes", "--name", run, *MODELS, "--script", "script.yaml")
        assert (done.code, "warning" in done.out) == (0, files == 2), done
        assert len(list((folder / "runs" / run).glob("a-b*.md"))) == files


@pytest.mark.finding("FX6")
def test_an_item_of_a_later_pass_that_replaces_the_file_of_another_causes_a_warning(
    project: Make, skillrun: Call
) -> None:
    folder = project()
    write_files(folder, {"workflows/notes.md": EACH, "skills/notes/files.md": PASSES.replace("STEP", ITEM)})
    done = skillrun("notes", "--name", "n", "--titles", "Café", "--titles", "Cafe", "--model", "scripted:default")
    warning = "parts Cafe: one: cafe.md replaces the file of `parts Café`; include the item's id in the file name"
    assert (done.code, warning in done.out) == (0, True), done
    again = skillrun("notes", "--name", "same", "--titles", "Tea", "--titles", "Tea", "--model", "scripted:default")
    assert (again.code, "replaces the file" in again.out) == (0, False), again


@pytest.mark.finding("FX6")
def test_names_that_differ_only_by_case_are_the_same_file(project: Make, skillrun: Call) -> None:
    folder = project()
    known = KNOWN.replace("title | slug", "title")
    write_files(folder, {"workflows/notes.md": EACH, "skills/notes/files.md": known})
    done = skillrun("notes", "--name", "n", "--titles", "Tea", "--titles", "TEA", "--model", "scripted:default")
    assert (done.code, "`parts`: Tea and TEA both write `notes/TEA.md`" in done.out) == (1, True), done
    agents = PASSES.replace("STEP", LIST.replace("NAME", "'./{{ member.model }}.md'"))
    write_files(folder, {"skills/notes/files.md": agents})
    done = skillrun("notes", "--name", "list", "--titles", "scripted:tea", "--titles", "scripted:TEA")
    assert done.code == 0, done
    assert sorted(file.name for file in (folder / "runs" / "list").glob("*.md"))[:2] == ["TEA-2.md", "state.md"]


INLINE = "---\nkind: phase\nsteps: [{id: inner, run: side, with: {title: tea}}]\n---\n"
INNER = "---\nname: side\ninputs: {title: string}\nphases: {only: {skill: notes/only}}\n---\n"


@pytest.mark.finding("FX6")
@pytest.mark.row("P7")
@pytest.mark.parametrize("other", [INLINE, SIDE], ids=["both inline", "one inline"])
@pytest.mark.parametrize("known", [True, False])
def test_inline_workflows_of_parallel_phases_that_write_the_same_file_fail(
    project: Make, skillrun: Call, known: bool, other: str
) -> None:
    def name(text: str) -> str:
        return text.replace('"{{ inputs.title }}.md"', "tea.md") if known else text

    phases = {"left": INLINE, "right": name(other), "only": name(SIDE)}
    folder = project()
    files = {f"skills/notes/{phase}.md": text for phase, text in phases.items()}
    write_files(folder, {"workflows/notes.md": SIDES, "workflows/side.md": INNER, **files})
    done = skillrun("notes", "tea", "--name", "n", "--model", "scripted:default")
    if known:
        assert (done.code, "`left` and `right` both write `tea.md`, and neither follows" in done.err) == (1, True), done
    else:
        assert (done.code, "both write `tea.md`" in done.out) == (1, True), done
    (folder / "workflows/notes.md").write_text(SIDES.replace("after: []", "after: [left]"))
    assert skillrun("notes", "tea", "--name", "ordered", "--model", "scripted:default").code == 0


READER = """---
kind: phase
steps:
  - {id: found, read: "PATTERN"}
  - {id: text, agent: host}
---
## text
Write about {{ found.text }}.
"""


@pytest.mark.row("P7")
@pytest.mark.parametrize("parallel", ["true", "false"])
@pytest.mark.parametrize("pattern", ["{{ inputs.title }}.md", "{{ inputs.title }}*.md"])
@pytest.mark.parametrize("order", [("left", "right"), ("right", "left")], ids=["reader first", "writer first"])
def test_a_phase_that_reads_what_an_unordered_phase_writes_fails(
    project: Make, skillrun: Call, order: tuple[str, str], pattern: str, parallel: str
) -> None:
    folder, (reader, writer) = project(), order
    files = {f"skills/notes/{reader}.md": READER.replace("PATTERN", pattern), f"skills/notes/{writer}.md": SIDE}
    workflow = SIDES.replace("  left:\n", "  start:\n  left: {after: [start]}\n").replace("[]", "[start]")
    workflow = workflow.replace("parallel: true", f"parallel: {parallel}")
    write_files(folder, {"workflows/notes.md": workflow, "skills/notes/start.md": SIDE, **files})
    done = skillrun("notes", "tea", "--name", "n", "--model", "scripted:default")
    conflict = f"`{reader}/found` reads `tea.md`, which `{writer}/note` writes, and neither follows the other"
    assert (done.code, conflict in done.out) == (1, True), done
    (folder / "workflows/notes.md").write_text(workflow.replace("right: {after: [start]}", "right: {after: [left]}"))
    assert skillrun("notes", "tea", "--name", "ordered", "--model", "scripted:default").code == 0


@pytest.mark.finding("FX6")
def test_the_suggested_answer_about_an_edited_file_is_accepted(project: Make, skillrun: Call) -> None:
    folder = project()
    write_files(folder, {"workflows/notes.md": EACH, "skills/notes/files.md": LATE.replace("name.data.name", "title")})
    again = ("resume", "n", "--from-start", "--yes", "--script", "script.yaml")
    (folder / "script.yaml").write_text(SCRIPT)
    assert skillrun("notes", "--name", "n", "--titles", "Tea", "--script", "script.yaml").code == 0
    note = folder / "runs" / "n" / "notes" / "Tea.md"
    note.write_text("mine\n")
    phase = folder / "skills" / "notes" / "files.md"
    phase.write_text(phase.read_text().replace("On {{", "About {{"))
    waiting = skillrun(*again)
    assert waiting.code == 75
    answer = waiting.out.partition("next: put `")[2].partition("`")[0]
    assert answer == "files/parts~Tea/one/notes/Tea.md: keep mine"
    (folder / "answers.yaml").write_text(answer.replace("keep mine", "take the new one"))
    assert skillrun(*again, "--answers", "answers.yaml").code == 0
    assert note.read_text() == "About Tea.\n"


@pytest.mark.finding("FX6")
def test_items_that_write_a_file_for_each_member_fail_if_the_names_are_equal(project: Make, skillrun: Call) -> None:
    folder = project()
    phase = KNOWN.replace("agent: host", "agent: [host, host@scripted:a]").replace(
        "{{ title | slug }}", "{{ title | slug }}-{{ member.model | slug }}"
    )
    write_files(folder, {"workflows/notes.md": EACH, "skills/notes/files.md": phase})
    done = skillrun("notes", "--name", "n", "--model", "scripted:default")
    assert (done.code, "both write `notes/" in done.out) == (1, True), done
