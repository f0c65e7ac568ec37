"""The page itself: what was gathered of a run, put into the templates beside this file.

The templates escape what they are given; only `prose.py` makes HTML of texts. The page's policy lets nothing be loaded
and nothing run, and takes the page's own style sheet by its hash.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from skillrun.cli.formatting import counted, duration, money, status_text, yaml_line
from skillrun.extensions.report.call_views import ToldCalls, ToldStep
from skillrun.extensions.report.markdown_html import Prose
from skillrun.extensions.report.plots import ScaleCard, convergence_of, courses_of, scales_of, timeline, token_bar
from skillrun.extensions.report.report_data import Document, Material
from skillrun.models.messages import Usage
from skillrun.questions.answers import DEFAULT, PREPARED, choices_of, lines_beside
from skillrun.runtime.usage_totals import Spent
from skillrun.store.event_lines import Record
from skillrun.syntax.diagnostics import printable

TEMPLATES: Final = Path(__file__).parent / "templates"
GENERATOR: Final = "skillrun report"
"""What the page says that it was made by; by this a report is known to be one."""
POLICY: Final = "default-src 'none'; style-src 'sha256-{}'; base-uri 'none'; form-action 'none'"
DEPTH: Final = 8  # of a structured reply that is laid out; what is deeper stands as JSON
BRIEF: Final = 300  # characters of what a tool was given
LARGEST: Final = 2_000_000  # bytes of the report of a run of `USUAL` calls, and in proportion of more
USUAL: Final = 48
LIMITS: Final = (100_000, 20_000, 6_000, 2_000, 500)
"""Characters that stand of a part of a prompt, of what a tool gave, or of a difference: the first with which the page
is not too large. Documents and replies stand whole."""


@dataclass(frozen=True)
class ToldPhase:
    """A phase in a round: its record, what happened in it, and the steps that asked somebody."""

    anchor: str
    name: str
    round: int
    record: Record
    usage: Mapping[str, Any]
    happened: Sequence[str]
    steps: Sequence[ToldStep]
    scales: Sequence[ScaleCard]

    @property
    def title(self) -> str:
        return self.name if self.round == 1 else f"{self.name}, round {self.round}"

    @property
    def status(self) -> str:
        return status_text("back" if self.record.get("back") else str(self.record.get("status", "")))


def page_of(material: Material, *, now: datetime | None = None) -> str:
    """The report as HTML."""
    now = now or datetime.now(UTC)
    anchors = {each.name: f"document-{number}" for number, each in enumerate(material.documents, 1)}
    calls = ToldCalls(material.calls, material.documents)
    phases = _phases(material, calls)
    style = (TEMPLATES / "report.css").read_text(encoding="utf-8")
    digest = base64.b64encode(sha256(style.encode()).digest()).decode()
    environment = _environment(Prose(anchors))
    moment = now.timestamp() if material.is_held else material.happenings.last
    most = max((each.usage.get("input", 0) + each.usage.get("output", 0) for each in phases), default=0)
    request = _request(material.story)
    template = environment.get_template("report.html")
    largest = LARGEST * max(1.0, len(calls.told) / USUAL)
    context = {
        "generator": GENERATOR,
        "policy": Markup(POLICY.format(digest)),  # noqa: S704 (a constant and a hash)
        "style": Markup(style),  # noqa: S704 (a file of the package)
        "material": material,
        "story": material.story,
        "made_at": now,
        "request": request,
        "inputs": {name: value for name, value in material.story["inputs"].items() if (name, value) != request},
        "used": _used(material, phases),
        "deliverable": material.deliverable,
        "documents": _others(material),
        "anchors": anchors,
        "calls": calls,
        "phases": phases,
        "phase_anchors": {(each.name, each.round): each.anchor for each in phases},
        "timeline": timeline(material.happenings.spans, moment),
        "bars": [(each, token_bar(each.usage, most)) for each in phases if each.usage.get("calls")],
        "courses": courses_of(material.story["phases"]),
        "waiting": [each for each in material.happenings.exchanges if each.answer is None],
        "answered": [each for each in material.happenings.exchanges if each.answer is not None],
        "changed": [each for each in material.documents if each.changes],
    }
    page = ""
    for limit in LIMITS:
        page = template.render(context, limit=limit)
        if len(page.encode("utf-8", "replace")) <= largest:
            break
    return page


def _environment(prose: Prose) -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_readable,
    )
    environment.filters |= {
        "document": prose.document,
        "reply": prose.reply,
        "prose": prose.line,
        "money": money,
        "duration": duration,
        "number": lambda number: f"{number:,}",
        "value": _number,
        "counted": counted,
        "yaml": _as_yaml,
        "percent": lambda number: f"{number:.2f}%",
        "given": _given,
        "choices": _choices,
        "beside": lines_beside,
        "difference": _difference,
        "moment": _moment,
        "cut": _cut,
        "brief": lambda text: text if len(text) <= BRIEF else f"{text[:BRIEF]}…",
    }
    environment.globals |= {"DEPTH": DEPTH}
    return environment


def _readable(value: Any) -> Any:
    """Whatever is put out, without what is not seen and what reorders a line."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _phases(material: Material, calls: ToldCalls) -> list[ToldPhase]:
    """Every phase of every round, also one that only its calls tell of."""
    records = {(phase["phase"], phase["round"]): phase for phase in material.story["phases"]}
    for told in calls.told:
        key = (told.conversation.phase, calls.round_of(told))
        records.setdefault(
            key, {"status": "", "outputs": {}, "usage": {}, "reason": "", "warnings": [], "artifacts": []}
        )
    made = []
    for number, ((name, in_round), record) in enumerate(records.items(), 1):
        steps = calls.steps(name, in_round)
        happened = [
            each["text"] for each in material.story["happened"] if (each["phase"], each["round"]) == (name, in_round)
        ]
        usage = record["usage"] if record["usage"].get("calls") else _usage_of(steps)
        scales = [*convergence_of(record["outputs"]), *scales_of(steps)]
        made.append(ToldPhase(f"phase-{number}", name, in_round, record, usage, happened, steps, scales))
    return made


def _usage_of(steps: Sequence[ToldStep]) -> Mapping[str, Any]:
    """What the calls of an open phase have used, of which there is no account yet."""
    turns = [turn.reply for step in steps for call in step.calls for turn in call.conversation.turns]
    return sum((Spent(1, reply.usage, reply.price) for reply in turns if reply is not None), Spent()).to_dict()


def _used(material: Material, phases: Sequence[ToldPhase]) -> Mapping[str, Any]:
    if "usage" in material.story:
        used: Mapping[str, Any] = material.story["usage"]
        return used
    every = [
        Spent(
            each.usage.get("calls", 0),
            Usage(*(each.usage.get(key, 0) for key in ("input", "output", "cache_read", "cache_write"))),
            each.usage.get("price", 0.0),
        )
        for each in phases
    ]
    return sum(every, Spent()).to_dict()


def _request(story: Record) -> tuple[str, str] | None:
    """What the run was asked for: the first of its inputs that is a text."""
    texts = ((name, value) for name, value in story["inputs"].items() if isinstance(value, str) and value.strip())
    return next(texts, None)


def _others(material: Material) -> list[Document]:
    """The documents beside the one to read first: those that are handed over in their order, then the others."""
    named = sorted((each for each in material.documents if each.order), key=lambda each: each.order)
    unnamed = [each for each in material.documents if not each.order]
    return [each for each in [*named, *unnamed] if each is not material.deliverable]


def _number(value: float) -> str:
    return f"{value:,.2f}".rstrip("0").rstrip(".")


def _given(answer: Mapping[str, Any]) -> str:
    """Who gave an answer."""
    who = {DEFAULT: "default used without asking", PREPARED: "prepared before the run"}
    return who.get(str(answer.get("answered_by")), "answered by a person")


def _choices(question: Any) -> list[tuple[str, bool]]:
    """What could be chosen, and whether it was."""
    answer = question.get("answer")
    chosen = [str(item) for item in (answer if isinstance(answer, list) else [answer])]
    return [(str(choice), str(choice) in chosen) for choice in choices_of(question)]


def _difference(lines: Sequence[str], limit: int) -> list[tuple[str, str]]:
    """The lines of a difference with what each is, up to a limit of characters."""
    kinds = {"+": "more", "-": "less", "@": "at"}
    told: list[tuple[str, str]] = []
    for number, line in enumerate(lines):
        limit -= len(line)
        if limit < 0:
            return [*told, ("at", f"… {counted(len(lines) - number, 'more line')}")]
        told.append((kinds.get(line[:1], "same"), line))
    return told


def _as_yaml(value: Any) -> str:
    try:
        return yaml_line(value)
    except RecursionError:
        return "… too deep to be shown"


def _cut(text: str, limit: int) -> str:
    left = len(text) - limit
    return f"{text[:limit]}\n… {counted(left, 'more character')}" if left > 0 else text


def _moment(at: Any) -> str:
    """A moment as people write it, in UTC."""
    try:
        moment = at if isinstance(at, datetime) else datetime.fromisoformat(str(at))
    except ValueError:
        return str(at)
    return f"{moment.astimezone(UTC):%-d %B %Y, %H:%M} UTC"
