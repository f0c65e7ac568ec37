"""`ask`: puts questions to the person, and gives the answers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from skillrun.language.absent import Absent
from skillrun.language.definitions import Step
from skillrun.people.person import Asking
from skillrun.people.prepared import PreparedUnfit
from skillrun.runtime.files import digest
from skillrun.runtime.questions import GO_ON, paused, put, unfitting
from skillrun.runtime.run import Frame

SHARED: Final = ("choices", "multiple", "other", "default")  # keys of the step, for each of its questions
THERE: Final = "the files are there"


async def act(step: Step, frame: Frame) -> dict[str, Any]:
    """`.answers`, the records with their answers, and `.answer`, the first one's."""
    if "files" in step.values:
        return await _wait_for_files(step, frame)
    questions = _questions(step, frame)
    if not questions:
        return {"answers": []}
    form = frame.value(step, "form", None)
    leave = frame.value(step, "pause", "interactive") == "exit"
    own = [step.main, *(step.values.get(name) for name in SHARED)]
    computed = any(value is not None and value.computed for value in own)
    form = str(form) if form else None
    answers = await put(frame, frame.at(step), questions, form=form, leave=leave, computed=computed)
    frame.open.asked.extend(question["id"] for question in questions)
    result: dict[str, Any] = {"answers": answers}
    first = answers[0].get("answer")
    return result if first is None else {**result, "answer": first}


def _questions(step: Step, frame: Frame) -> list[dict[str, Any]]:
    """The records to ask: a text becomes one, with the choices and the default beside it."""
    asked = frame.main(step)
    items = asked if isinstance(asked, list) else [asked]
    shared: dict[str, Any] = {}
    for name in SHARED:
        value = frame.value(step, name)
        if not isinstance(value, Absent):
            shared[name] = value
    questions = []
    for number, item in enumerate(items, 1):
        record = dict(item) if isinstance(item, Mapping) else {"text": str(item)}
        base = step.id or "question"
        record.setdefault("id", base if len(items) == 1 else f"{base}-{number}")
        questions.append({**shared, **record, "round": frame.open.round})
    return questions


async def _wait_for_files(step: Step, frame: Frame) -> dict[str, Any]:
    """The files that were there when there were any; more of them do not change what has been asked since.

    A step with a default can do without: a person who comes back without files is asked.
    """
    pattern = str(frame.value(step, "files"))
    where = f"{frame.at(step)}@{frame.open.rounds}"
    known = frame.run.journal.find("tool", where, digest(pattern))
    if known is not None and frame.run.session.keeps_reads:
        return known
    found = frame.run.folder.matching(pattern)
    default = frame.value(step, "default", None)
    if not found:
        written_out = re.split(r"[*?[]", pattern)[0].rpartition("/")[0]
        if written_out:
            frame.run.folder.make_folder(written_out)
    if not found and default is not None:
        asked = {"id": step.id or "files", "text": str(frame.main(step)), "choices": [THERE, GO_ON], "default": GO_ON}
        asking = Asking(frame.at(step).partition("/")[2], frame.open.title, (asked,))
        try:
            given = await frame.run.session.person.ask(asking, now=frame.open.returned)
        except PreparedUnfit as unfit:
            raise unfitting(unfit) from None
        without = given is not None and given[0].get("answer") == GO_ON
        found = [str(default)] if without else frame.run.folder.matching(pattern)
    if not found:
        hint = f"put files that match `{pattern}` into {frame.run.folder.path}"
        raise await paused(frame, str(frame.main(step)), hint)
    result: dict[str, Any] = {"answers": [], "answer": ", ".join(found)}
    await frame.run.journal.record("tool", where, digest(pattern), result)
    return result
