"""`skillrun report`: its content and order, where it is written, and reports of unfinished runs."""

from __future__ import annotations

import base64
import json
import re
import shutil
import stat
from collections.abc import Callable
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final

import pytest

from skillrun.repository.confined_folder import ConfinedFolder
from skillrun.store.local.lock import LocalLease

Call = Callable[..., Any]
SCRIPTED: Final = ("--model", "scripted:default")
FINISHED: Final = Path(__file__).parents[2] / "docs" / "finished"

pytestmark = pytest.mark.row("A6")


class Page(HTMLParser):
    """A parsed report: its sections in order, its anchors and its text."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.source = path.read_text(encoding="utf-8")
        self.anchors: list[str] = []
        self.sections: list[str] = []
        self.links: list[str] = []
        self.tags: set[str] = set()
        self.headings: list[int] = []
        self.text = ""
        self.feed(self.source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.tags.add(tag)
        if attributes.get("id"):
            self.anchors.append(str(attributes["id"]))
            self.sections += [str(attributes["id"])] if tag == "section" else []
        if attributes.get("href"):
            self.links.append(str(attributes["href"]))
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))

    def handle_data(self, data: str) -> None:
        self.text += data

    def contains(self, text: str) -> bool:
        return " ".join(text.split()) in " ".join(self.text.split())


def page_of(skillrun: Call, run: str, *more: str) -> Page:
    done = skillrun("report", run, "--json", *more)
    assert done.code == 0, done.err
    return Page(Path(done.json["path"]))


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "finished"
    shutil.copytree(FINISHED, folder)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def visit_project(project: Call, skillrun: Call) -> Path:
    """A completed run of `visit`, in its second round."""
    folder: Path = project("visit")
    (folder / "answers.yaml").write_text("where: the lake\n")
    assert skillrun("visit", "--answers", "answers.yaml", *SCRIPTED).code == 0
    return folder


def write_files(project: Call, files: dict[str, str]) -> Path:
    folder: Path = project()
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def small_workflow(steps: str, prompts: str, workflow: str = "") -> dict[str, str]:
    """A one-phase workflow `w`."""
    return {
        "workflows/w.md": f"---\nname: w\ninputs: {{request: string, repo?: path}}\n{workflow}phases:\n  one:\n---\n",
        "skills/w/one.md": f"---\nkind: phase\nsteps:\n{steps}---\n{prompts}",
        "roles/a.md": "---\nname: a\ntools: [Read]\n---\nYou write.\n",
        "roles/b.md": "---\nname: b\n---\nYou write.\n",
    }


# content


@pytest.mark.slow
def test_the_report_of_a_plan_starts_with_the_plan_and_has_all_sections(example: Path, skillrun: Call) -> None:
    page = page_of(skillrun, "reminders")
    sections = ["result", "documents", "questions", "timeline", "cost", "scores", "phases", "about", "texts"]
    assert page.sections[: len(sections) - 3] == sections[:-3]
    assert [section for section in page.sections if section in sections] == sections
    first = page.source[page.source.index('id="result"') :]
    assert re.search(r"<h2[^>]*>plan\.md</h2>", first)
    assert first.index("The notes are a table outside") < first.index("spec.md")
    assert page.contains("default used without asking")
    assert page.contains("mean 17.33")
    assert page.contains("34")
    usage = skillrun("show", "reminders", "--json").json["usage"]
    assert page.contains(f"{usage['input']:,}")


@pytest.mark.slow
def test_every_internal_link_has_a_unique_target(example: Path, skillrun: Call) -> None:
    page = page_of(skillrun, "reminders")
    internal = {link.removeprefix("#") for link in page.links if link.startswith("#")}
    assert internal <= set(page.anchors)
    assert len(set(page.anchors)) == len(page.anchors)
    assert len(internal) > 50


@pytest.mark.slow
def test_headings_skip_no_level(example: Path, skillrun: Call) -> None:
    page = page_of(skillrun, "reminders")
    assert page.headings[0] == 1
    assert page.headings.count(1) == 1
    assert all(following <= level + 1 for level, following in zip(page.headings, page.headings[1:], strict=False))


@pytest.mark.slow
def test_the_report_loads_nothing_and_has_a_content_security_policy(example: Path, skillrun: Call) -> None:
    page = page_of(skillrun, "reminders")
    assert not {"script", "img", "iframe", "link", "object", "embed", "form", "base"} & page.tags
    assert " style=" not in page.source
    (style,) = re.findall(r"<style>(.*?)</style>", page.source, re.DOTALL)
    assert "url(" not in style
    assert "@import" not in style
    digest = base64.b64encode(sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    assert f'<meta http-equiv="Content-Security-Policy" content="{policy}">' in page.source
    assert '<meta name="referrer" content="no-referrer">' in page.source


@pytest.mark.slow
def test_repeated_prompt_text_appears_once(example: Path, skillrun: Call) -> None:
    page = page_of(skillrun, "reminders")
    assert page.source.count("You are one of several people who plan a change") == 1
    assert page.source.count("# The code that the research names") == 1
    assert len(page.source) < 1_000_000


@pytest.mark.slow
def test_a_panel_is_shown_as_a_conversation_with_prompt_parts(example: Path, skillrun: Call) -> None:
    page = page_of(skillrun, "reminders")
    start = page.source.index('aria-label="architecture: proposals"')
    panel = page.source[start : page.source.index("</section>", start)]
    order = ["software-architect:minimal", "software-architect:clean", "software-architect:pragmatic", "chair"]
    positions = [panel.index(f'<span class="who">{member}</span>') for member in order]
    assert positions == sorted(positions)
    assert panel.index("synthesis") > positions[2]
    for part in ("preamble", "request", "The code", "task", "role"):
        assert re.search(rf">{part}[ <]", panel)


@pytest.mark.slow
def test_rounds_are_labelled_and_compared(visit_project: Path, skillrun: Call) -> None:
    page = page_of(skillrun, "visit")
    assert page.contains("plan, round 2")
    assert page.contains("went back")
    assert "rounds" in page.sections
    (name,) = re.findall(r'<span class="name">([^<]+)</span> <span class="aside">round 1 to now', page.source)
    assert name == "visit.md"
    assert '<span class="more">' in page.source


@pytest.mark.slow
def test_output_documents_come_first_in_the_order_of_the_outputs(project: Call, skillrun: Call) -> None:
    steps = "".join(f"  - {{id: {name}, agent: a, writes: {name}.md}}\n" for name in ("one", "two", "three"))
    prompts = "## one\nOne.\n\n## two\nTwo.\n\n## three\nThree.\n"
    outputs = "outputs:\n" + "".join(
        f"  {name}: \"{{{{ phases.one.artifacts['{name}.md'] }}}}\"\n" for name in ("two", "one")
    )
    write_files(project, small_workflow(steps, prompts, outputs))
    assert skillrun("w", "Do", "--name", "it", *SCRIPTED).code == 0
    done = skillrun("report", "it", "--json").json
    assert done["deliverable"] == "two.md"
    source = Path(done["path"]).read_text()
    order = [source.index(f">{name}.md</") for name in ("two", "one", "three")]
    assert order == sorted(order)
    assert "An output of the workflow." in source


@pytest.mark.slow
def test_without_outputs_the_report_starts_with_the_last_artifact(visit_project: Path, skillrun: Call) -> None:
    page = page_of(skillrun, "visit")
    assert page.sections[0] == "result"
    assert page.contains("The last artifact of the run.")


# untrusted text


HOSTILE: Final = """# <script>alert(1)</script>

<img src=x onerror=alert(1)> [one](javascript:alert(1)) [two](data:text/html,x) ![three](https://evil.example/a.png)
<javascript:alert(1)> [four][ref] </script></style></pre></details><svg onload=alert(1)> \u202edesrever\u202c

[ref]: javascript:alert(1)

```"><script>alert(2)</script>
{{ 7 * 7 }}
```
[good](https://example.org/a?b=c) [mail](mailto:ada@example.org) [there](w.md)
"""


@pytest.mark.slow
def test_model_output_is_escaped(project: Call, skillrun: Call) -> None:
    steps = (
        "  - {id: draft, agent: a, writes: w.md}\n  - {id: seen, agent: b, output: {note: string}}\n"
        "  - {ask: '{{ seen.data.note }}', id: sure, default: yes}\n"
    )
    folder = write_files(project, small_workflow(steps, "## draft\nWrite.\n\n## seen\nSay.\n"))
    calls = [{"id": "1", "name": "<b>Read", "arguments": {"<i>": "</code><script>alert(3)</script>"}}]
    rules = [
        {"address": "*/draft/*/1.1", "calls": calls},
        {"address": "*/draft/*", "text": HOSTILE},
        {"address": "*/seen/*", "data": {"note": HOSTILE}},
    ]
    (folder / "script.yaml").write_text(json.dumps(rules))
    arguments = ("--script", "script.yaml", "--name", "it", "--unattended", *SCRIPTED)
    assert skillrun("w", HOSTILE, *arguments).code == 0
    page = page_of(skillrun, "it")
    assert not {"script", "img", "i"} & page.tags
    assert page.source.count("<style>") == 1
    external = {link for link in page.links if not link.startswith("#")}
    assert external == {"https://example.org/a?b=c", "mailto:ada@example.org"}
    assert 'rel="noopener noreferrer"' in page.source
    assert not re.search(r"<[^>]*\son\w+\s*=", page.source)
    assert "\u202e" not in page.source
    assert page.contains("<img src=x onerror=alert(1)>")
    assert page.contains("{{ 7 * 7 }}")
    assert page.contains("[image: three https://evil.example/a.png]")


@pytest.mark.slow
def test_withheld_files_do_not_appear_in_the_report(
    project: Call, skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_files(
        project,
        small_workflow("  - {id: draft, agent: a}\n", "## draft\nWrite.\n", 'repository: "{{ inputs.repo }}"\n'),
    )
    (folder / "code").mkdir()
    (folder / "code" / ".env").write_text("TOKEN=very-secret-thing\n")
    calls = [{"id": "1", "name": "Read", "arguments": {"path": ".env"}}]
    (folder / "script.yaml").write_text(
        json.dumps([{"address": "*/1.1", "calls": calls}, {"address": "*", "text": "done"}])
    )
    assert skillrun("w", "Do", "--repo", "code", "--script", "script.yaml", "--name", "it", *SCRIPTED).code == 0
    page = page_of(skillrun, "it")
    assert page.contains("withheld")
    assert "very-secret-thing" not in page.source


# size


@pytest.mark.slow
def test_a_report_of_48_long_calls_stays_under_2_mb_and_says_what_is_truncated(
    project: Call, skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = "".join(f"  - {{id: s{number}, agent: a}}\n" for number in range(24))
    prompts = "".join(f"## s{number}\nSay.\n\n" for number in range(24))
    folder = write_files(project, small_workflow(steps, prompts, 'repository: "{{ inputs.repo }}"\n'))
    (folder / "code").mkdir()
    rules: list[dict[str, Any]] = []
    for number in range(24):
        text = "".join(f"line {line} of {number} <&>\n" for line in range(6_000))
        (folder / "code" / f"f{number}.txt").write_text(text)
        reads = [{"path": f"f{number}.txt", "offset": offset, "limit": 2000} for offset in (1, 2001, 4001)]
        calls = [{"id": f"c{at}", "name": "Read", "arguments": read} for at, read in enumerate(reads)]
        rules.append({"address": f"*/s{number}/*/1.1", "calls": calls})
    rules.append({"address": "*", "text": "read"})
    (folder / "script.yaml").write_text(json.dumps(rules))
    assert skillrun("w", "Do", "--repo", "code", "--script", "script.yaml", "--name", "it", *SCRIPTED).code == 0
    done = skillrun("report", "it", "--json").json
    assert done["calls"] == 48
    assert 1_000_000 < done["bytes"] <= 2_000_000
    monkeypatch.setattr("skillrun.extensions.report.page.MAX_PAGE_BYTES", 500_000)
    done = skillrun("report", "it", "--json").json
    assert done["bytes"] <= 500_000
    page = Page(Path(done["path"]))
    assert page.contains("To limit its size, prompts and tool results are cut to")
    assert re.search(r"… [\d,]+ more characters", page.source)


# output file


@pytest.mark.slow
def test_the_report_is_written_to_the_run_folder_and_only_its_owner_can_read_it(
    visit_project: Path, skillrun: Call
) -> None:
    done = skillrun("report", "visit")
    assert done.code == 0
    path = visit_project / "runs" / "visit" / "report.html"
    assert f"wrote {path}: 4 calls, " in done.out
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert f"replaced {path}" in skillrun("report", "visit").out
    assert [file.name for file in path.parent.iterdir() if file.name.startswith(".report")] == []


@pytest.mark.slow
def test_the_report_of_a_shared_run_can_be_read_by_others(project: Call, skillrun: Call) -> None:
    project("greeting")
    assert skillrun("greeting", "Ada", "--name", "it", "--share", *SCRIPTED).code == 0
    path = Path(skillrun("report", "it", "--json").json["path"])
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


@pytest.mark.slow
def test_a_file_that_is_not_a_report_is_not_overwritten(visit_project: Path, skillrun: Call) -> None:
    mine = visit_project / "mine.html"
    mine.write_text("<p>mine</p>")
    done = skillrun("report", "visit", "--output", "mine.html")
    assert done.code == 2
    assert "mine.html exists and is not a report" in done.err
    assert mine.read_text() == "<p>mine</p>"
    link = visit_project / "link.html"
    assert skillrun("report", "visit", "--output", "other.html").code == 0
    link.symlink_to(visit_project / "other.html")
    assert skillrun("report", "visit", "--output", "link.html").code == 2
    assert link.is_symlink()


def test_a_missing_folder_or_run_is_an_error(visit_project: Path, skillrun: Call) -> None:
    done = skillrun("report", "visit", "--output", "no/where.html")
    assert (done.code, " does not exist" in done.err) == (2, True)
    done = skillrun("report", "visitt")
    assert (done.code, "visit" in done.err) == (2, True)


@pytest.mark.slow
def test_the_report_opens_in_a_browser_only_with_open(
    visit_project: Path, skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    exit_codes = iter([0, 1])

    def launch(url: str) -> int:
        opened.append(url)
        return next(exit_codes)

    monkeypatch.setattr("click.launch", launch)
    assert skillrun("report", "visit").code == 0
    assert opened == []
    done = skillrun("report", "visit", "--open")
    assert (done.code, opened, done.err) == (0, [str(visit_project / "runs" / "visit" / "report.html")], "")
    done = skillrun("report", "visit", "--open")
    assert (done.code, "could not start a browser; open " in done.err) == (0, True)


@pytest.mark.slow
def test_a_report_does_not_change_the_run(visit_project: Path, skillrun: Call) -> None:
    run = visit_project / "runs" / "visit"

    def files() -> dict[str, bytes]:
        paths = (path for path in run.rglob("*") if path.is_file())
        return {str(path): path.read_bytes() for path in paths if path.name != "report.html"}

    before = files()
    assert skillrun("report", "visit").code == 0
    assert files() == before
    assert skillrun("resume", "visit").code == 0


@pytest.mark.slow
def test_patterns_of_a_resumed_run_do_not_match_its_report(project: Call, skillrun: Call) -> None:
    steps = (
        "  - {id: draft, agent: a, writes: w.md}\n  - {id: sure, ask: Is it sure?}\n"
        "  - {id: there, read: '*'}\n  - {id: named, read: report.html}\n"
    )
    outputs = "outputs: {there: '{{ there.files }}', named: '{{ named.files }}'}\n"
    files = small_workflow(steps + "", "## draft\nWrite.\n")
    files["skills/w/one.md"] = files["skills/w/one.md"].replace("---\n## draft", f"{outputs}---\n## draft")
    folder = write_files(project, {**files, "answers.yaml": "sure: yes\n"})
    assert skillrun("w", "Do", "--name", "it", *SCRIPTED).code == 75
    assert skillrun("report", "it").code == 0
    done = skillrun("resume", "it", "--answers", str(folder / "answers.yaml"), "--json")
    assert done.code == 0, done.err
    (phase,) = done.json["phases"]
    assert phase["outputs"] == {"there": ["w.md"], "named": ["report.html"]}


# unfinished and damaged runs


@pytest.mark.slow
def test_the_report_of_a_waiting_run_starts_with_its_questions(project: Call, skillrun: Call) -> None:
    steps = "  - {id: draft, agent: a, writes: w.md}\n  - {id: sure, ask: Is it sure?, choices: [certainly, hardly]}\n"
    write_files(project, small_workflow(steps, "## draft\nWrite.\n"))
    assert skillrun("w", "Do", "--name", "it", *SCRIPTED).code == 75
    page = page_of(skillrun, "it")
    assert page.sections[:2] == ["questions", "result"]
    assert page.contains("This run is waiting for the user: 1 question, below.")
    assert page.contains("To continue: skillrun resume it")
    assert page.contains("Is it sure?")


@pytest.mark.slow
def test_the_report_of_a_run_in_progress_says_so(project: Call, skillrun: Call) -> None:
    steps = "  - {id: draft, agent: a, writes: w.md}\n  - {id: sure, ask: Is it sure?}\n"
    write_files(project, small_workflow(steps, "## draft\nWrite.\n"))
    assert skillrun("w", "Do", "--name", "it", *SCRIPTED).code == 75
    with LocalLease(ConfinedFolder(Path("runs/it"))).hold():
        done = skillrun("report", "it", "--json")
    assert done.code == 0
    assert done.json["is_held"]
    page = Page(Path(done.json["path"]))
    assert page.contains("This run is in progress. This report shows its state on")
    assert page.contains("running")
    assert page.contains("1 call")


@pytest.mark.slow
def test_the_report_of_an_interrupted_run_says_so(visit_project: Path, skillrun: Call) -> None:
    state = visit_project / "runs" / "visit" / "state.md"
    state.write_text(re.sub(r"(?m)^status: .*$", "status: running", state.read_text()))
    page = page_of(skillrun, "visit")
    assert page.contains(
        "This run was interrupted. This report shows its state at that time. To continue: skillrun resume visit"
    )


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["cut", "gone", "newer"])
def test_a_run_with_an_unreadable_journal_is_reported_from_its_files(
    damage: str, visit_project: Path, skillrun: Call
) -> None:
    journal = visit_project / "runs" / "visit" / ".run" / "journal.db"
    if damage == "gone":
        shutil.rmtree(journal.parent)
    elif damage == "cut":
        journal.write_bytes(journal.read_bytes()[:2_000])
    else:
        import sqlite3

        database = sqlite3.connect(journal)
        database.execute("PRAGMA user_version = 99")
        database.commit()
        database.close()
    done = skillrun("report", "visit", "--json")
    assert done.code == 0
    assert "the run's prompts and replies cannot be shown: " in done.err
    if damage == "newer":
        assert "this skillrun reads version" in done.err
        assert "Upgrade skillrun" in done.err
    page = Page(Path(done.json["path"]))
    assert page.contains("the run's prompts and replies cannot be shown: ")
    assert page.sections[0] == "result"


def test_a_run_of_a_newer_version_is_refused_with_a_clear_error(visit_project: Path, skillrun: Call) -> None:
    state = visit_project / "runs" / "visit" / "state.md"
    state.write_text(state.read_text().replace("schema_version: 2", "schema_version: 3"))
    done = skillrun("report", "visit")
    assert done.code == 1
    assert "has schema version 3; this skillrun supports version 2" in done.err
    assert "use the skillrun version that wrote it" in done.err
    assert not (visit_project / "runs" / "visit" / "report.html").exists()


@pytest.mark.slow
def test_the_report_of_a_failed_run_gives_the_reason(project: Call, skillrun: Call) -> None:
    write_files(project, small_workflow("  - {stop: failed, reason: no <b>bread</b>}\n", ""))
    assert skillrun("w", "Do", "--name", "it", *SCRIPTED).code == 1
    page = page_of(skillrun, "it")
    assert page.contains("This run failed: no <b>bread</b>. To retry: skillrun resume it")
    assert "result" not in page.sections


@pytest.mark.slow
def test_the_timeline_shows_the_colour_of_each_member(project: Call, skillrun: Call) -> None:
    project("greeting")
    assert skillrun("greeting", "Ada", *SCRIPTED, "--name", "ada").code == 0
    page = page_of(skillrun, "ada")
    assert '<span class="dot b0"></span>WR writer</span>' in page.source
    assert "got no answer" not in page.text


@pytest.mark.finding("FD9")
def test_a_report_names_the_documents_beyond_its_limit(
    example: Path, skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skillrun.extensions.report.report_data.MAX_REPORT_CHARS", 1)
    (doubt,) = skillrun("report", "reminders", "--json").json["doubts"]
    assert doubt.startswith("the documents have more than 1 characters; the report leaves out ")
    assert doubt.endswith("reminders")
