"""Collects the data of a report: the summary, calls, documents, questions and timeline of a run.

The report shows all readable parts; `doubts` lists the unreadable ones.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Final

from skillrun import registry
from skillrun.cli.differences import text_difference
from skillrun.cli.loading import open_library
from skillrun.cli.run_summary import summarize_run
from skillrun.definitions.definitions import Workflow
from skillrun.store.event_lines import Record
from skillrun.store.run_history import RunHistory
from skillrun.store.run_view import RunCalls, RunView
from skillrun.store.stored_run import StoredRun
from skillrun.syntax.diagnostics import SkillrunError
from skillrun.templates.expressions import RenderError

_MARK: Final = "\0"  # prefix by which an artifact's name is recognized in the value of an output


def list_deliverables(workflow: Workflow, inputs: Mapping[str, Any], artifacts: Collection[str]) -> list[str]:
    """Return the names of the artifacts that are outputs of a workflow, in the order of the outputs.

    Such an output is the expression `phases.<phase>.artifacts['<name>']`, the text of the artifact.
    """
    names = {name: f"{_MARK}{name}" for name in artifacts}
    phases = {name.replace("-", "_"): {"artifacts": names} for name in workflow.phases}
    deliverables: dict[str, None] = {}
    for value in workflow.outputs.values():
        if value.template is None or not value.template.mentions_any("phases"):
            continue
        try:
            text = value.template.render({"phases": phases, "inputs": dict(inputs)})
        except RenderError:  # the output depends on other data of the run
            continue
        if isinstance(text, str) and text.startswith(_MARK):
            deliverables[text.removeprefix(_MARK)] = None
    return list(deliverables)


MAX_DOCUMENT_CHARS: Final = 1_000_000  # longer documents are cut
MAX_REPORT_CHARS: Final = 20_000_000  # of all documents and their earlier versions; further documents are left out
MAX_CALL_CHARS: Final = 50_000_000  # of all different prompts, replies and results; further calls are left out
MAX_NAMED: Final = 5  # omitted documents that a warning lists
OWNER_ONLY: Final = "only the run's owner can read its journal"


@dataclass(frozen=True)
class ReportDocument:
    """An artifact, with its current text and its text at the end of each earlier round.

    `order` is the artifact's position among the workflow's outputs, from 1, or 0 if it is not an output.
    """

    name: str
    text: str
    order: int
    is_edited: bool
    earlier_versions: Mapping[int, str]

    @cached_property
    def changes(self) -> list[tuple[int, int | None, list[str]]]:
        """The changes between versions, as (round of a version, round of the next version, difference).

        The current text has the round None.
        """
        versions: list[tuple[int | None, str]] = [*self.earlier_versions.items(), (None, self.text)]
        changes = []
        for (number, text), (next_number, next_text) in pairwise(versions):
            if number is not None and (difference := text_difference(text, next_text)):
                changes.append((number, next_number, difference))
        return changes


@dataclass(frozen=True)
class ReportSection:
    """A section that an extension adds to the report. `text` is markdown, in which HTML has no effect."""

    title: str
    text: str


@dataclass(frozen=True)
class ReportData:
    """The data of a report. `summary` is what `skillrun show --json` prints."""

    summary: Record
    calls: RunCalls
    history: RunHistory
    documents: Sequence[ReportDocument]
    is_held: bool
    is_shared: bool
    """Whether other users may read the run's files."""
    doubts: Sequence[str]
    sections: Sequence[ReportSection] = ()

    @property
    def ordered_documents(self) -> list[ReportDocument]:
        """The outputs of the workflow in their order, then the other documents."""
        return sorted(self.documents, key=lambda each: each.order or math.inf)

    @property
    def deliverable(self) -> ReportDocument | None:
        """The document to read first: the workflow's first output, or else the last artifact."""
        first = next(iter(self.ordered_documents), None)
        return first if first is None or first.order else self.documents[-1]


def collect_report_data(run: StoredRun) -> ReportData:
    """Return the data of a run. Raises SkillrunError if the run's state cannot be read."""
    view = RunView(run)
    summary = summarize_run(view)
    doubts = []
    try:
        calls, omitted_calls = _limit_calls(view.calls)
    except (SkillrunError, PermissionError) as error:
        why = OWNER_ONLY
        if isinstance(error, SkillrunError):
            why = f"{error.message}. {error.next_step}".rstrip(" .")
        doubts.append(f"the run's prompts and replies cannot be shown: {why}")
        omitted_calls = 0
        calls = RunCalls(summary["run"], phases=[phase["phase"] for phase in summary["phases"]])
    if omitted_calls:
        limit = f"the prompts and replies have more than {MAX_CALL_CHARS:,} characters"
        doubts.append(
            f"{limit}; the report leaves out the last {omitted_calls} of {omitted_calls + len(calls.conversations)} "
            f"calls, which `skillrun show {run.name} PHASE STEP` shows"
        )
    can_read_lease = OWNER_ONLY not in summary.get("journal", "")  # only the owner can read the lease of a private run
    is_held = summary["status"] == "running" or (can_read_lease and run.lease.is_held())
    library, workflow_name = open_library(), summary["workflow"]
    deliverables: list[str] = []
    if workflow_name in library.names("workflows") and (workflow := library.workflow(workflow_name)) is not None:
        deliverables = list_deliverables(workflow, summary["inputs"], summary["artifacts"])
    documents, omitted = _documents(view, summary, deliverables)
    if omitted:
        more = f" and {len(omitted) - MAX_NAMED} more" if len(omitted) > MAX_NAMED else ""
        names = ", ".join(omitted[:MAX_NAMED])
        limit = f"the documents have more than {MAX_REPORT_CHARS:,} characters"
        doubts.append(f"{limit}; the report leaves out {names}{more}, which are in {summary['folder']}")
    is_shared = run.state().share
    data = ReportData(summary, calls, view.history, documents, is_held, is_shared, [*doubts, *calls.notes])
    sections, failures = _registered_sections(data)
    return replace(data, sections=sections, doubts=[*data.doubts, *failures])


def _limit_calls(calls: RunCalls) -> tuple[RunCalls, int]:
    """Return the first calls, as many as fit into a report, and the number of the others."""
    room, known = MAX_CALL_CHARS, set[int]()
    for number, each in enumerate(calls.conversations):
        texts = [block.text for block in each.first.request.blocks]
        for turn in each.turns:
            reply = turn.reply
            texts += [turn.asks_again, reply.text if reply is not None else ""]
            texts += [use.result or "" for use in turn.tools]
        different = {hash(text): len(text) for text in texts if hash(text) not in known}
        known.update(different)
        room -= sum(different.values())
        if room < 0:
            shown = calls.conversations[:number]
            return replace(calls, conversations=shown), len(calls.conversations) - number
    return calls, 0


def _registered_sections(data: ReportData) -> tuple[list[ReportSection], list[str]]:
    """Return the sections that extensions add, and why sections are missing."""
    sections, failures = [], []
    for name in registry.names("reports"):
        try:
            build_section = registry.load("reports", name)
            with registry.report_failure("reports", name):
                section: ReportSection | None = build_section(data)
                if section is not None:
                    sections.append(ReportSection(str(section.title), str(section.text)[:MAX_DOCUMENT_CHARS]))
        except SkillrunError as error:
            failures.append(error.message)
    return sections, failures


def _documents(view: RunView, summary: Record, deliverables: Sequence[str]) -> tuple[list[ReportDocument], list[str]]:
    """Return the readable artifacts, in the order in which they were written, and the names of those left out."""
    try:
        store = view.data
    except (SkillrunError, PermissionError):
        store = view.run.data()
    edited = set(summary.get("changed_by_hand", ()))
    documents: list[ReportDocument] = []
    omitted: list[str] = []
    room = MAX_REPORT_CHARS
    for name in summary["artifacts"]:
        if room <= 0:
            omitted.append(name)
            continue
        text = store.artifacts.text(name)
        if text is None:
            continue
        order = deliverables.index(name) + 1 if name in deliverables else 0
        versions = ((number, store.artifacts.text(name, number)) for number in range(1, summary["round"]))
        earlier_versions = {number: old[:MAX_DOCUMENT_CHARS] for number, old in versions if old is not None}
        documents.append(ReportDocument(name, text[:MAX_DOCUMENT_CHARS], order, name in edited, earlier_versions))
        room -= sum(map(len, (documents[-1].text, *earlier_versions.values())))
    return documents, omitted
