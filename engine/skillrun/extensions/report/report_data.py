"""All that a report tells of a run, gathered once: its story, its calls, its documents, what was asked and when.

Changes nothing there. What cannot be read is told in `doubts`, and the rest is there all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Final

from skillrun.cli.call_selection import RunCalls, calls_of
from skillrun.cli.differences import text_difference
from skillrun.cli.loading import open_library
from skillrun.cli.run_summary import story
from skillrun.definitions.deliverables import documents_handed_over
from skillrun.extensions.report.timeline import Happenings, happenings
from skillrun.store.event_lines import Record
from skillrun.store.run_data import RunStore
from skillrun.store.stored_run import StoredRun
from skillrun.syntax.diagnostics import SkillrunError

LARGEST: Final = 1_000_000  # characters of a document
WHOSE: Final = "the journal of this run is its owner's"


@dataclass(frozen=True)
class Document:
    """An artifact as it stands now, with what it was at the end of each round that is over.

    `order`: its place among what the workflow hands over; 0 for one that it does not name.
    """

    name: str
    text: str
    order: int
    is_edited: bool
    before: Mapping[int, str]

    @cached_property
    def changes(self) -> list[tuple[int, int | None, list[str]]]:
        """What became of it: a round, the next one that has another text (None: now), and the difference."""
        versions: list[tuple[int | None, str]] = [*self.before.items(), (None, self.text)]
        found = []
        for (number, text), (next_number, next_text) in pairwise(versions):
            if number is not None and (difference := text_difference(text, next_text)):
                found.append((number, next_number, difference))
        return found


@dataclass(frozen=True)
class Material:
    """What a run has to tell. `story` is that of `skillrun show --json`."""

    story: Record
    calls: RunCalls
    happenings: Happenings
    documents: Sequence[Document]
    is_held: bool
    is_shared: bool
    """Whether others may read the run's files."""
    doubts: Sequence[str]

    @property
    def deliverable(self) -> Document | None:
        """What to read first: what the workflow hands over, or else what the run has written last."""
        named = sorted((each for each in self.documents if each.order), key=lambda each: each.order)
        return next(iter([*named, *reversed(self.documents)]), None)


def material_of(run: StoredRun) -> Material:
    """What there is of a run. Raises SkillrunError where it has no state that can be read."""
    told = story(run)
    doubts = []
    try:
        calls = calls_of(run)
    except (SkillrunError, PermissionError) as error:
        why = WHOSE
        if isinstance(error, SkillrunError):
            why = f"{error.message}. {error.next_step}".rstrip(" .")
        doubts.append(f"its prompts and replies cannot be shown: {why}")
        calls = RunCalls(
            told["run"], [], [phase["phase"] for phase in told["phases"]], is_held=False, notes=[], dropped={}
        )
    may_look = WHOSE not in told.get("journal", "")  # where only its owner may, nobody else knows who holds it
    is_held = told["status"] == "running" or (may_look and run.lease.is_held())
    happened = happenings(run.events())
    documents = _documents(run, told, _handed_over(told))
    is_shared = run.state().share
    return Material(told, calls, happened, documents, is_held, is_shared, [*doubts, *calls.notes])


def _handed_over(told: Record) -> list[str]:
    """The documents among the outputs of the workflow, as its file says now; none where it is not found."""
    library = open_library()
    name = told["workflow"]
    workflow = library.workflow(name) if name in library.names("workflows") else None
    return documents_handed_over(workflow, told["inputs"], told["artifacts"]) if workflow is not None else []


def _documents(run: StoredRun, told: Record, handed_over: Sequence[str]) -> list[Document]:
    """The artifacts that are there, in the order in which phases wrote them."""
    with ExitStack() as stack:
        try:
            store = run.store(stack.enter_context(closing(run.journal_so_far())) if run.has_journal else None)
        except (SkillrunError, PermissionError):
            store = run.store()
        edited = set(told.get("changed_by_hand", ()))
        made = []
        for name in told["artifacts"]:
            text = store.ledger.text(name)
            if text is not None:
                order = handed_over.index(name) + 1 if name in handed_over else 0
                before = _before(store, name, range(1, told["round"]))
                made.append(Document(name, text[:LARGEST], order, name in edited, before))
    return made


def _before(store: RunStore, name: str, rounds: Iterable[int]) -> dict[int, str]:
    texts = ((number, store.ledger.text(name, number)) for number in rounds)
    return {number: text for number, text in texts if text is not None}
