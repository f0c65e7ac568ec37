"""Renders the HTML page of a report from the collected data.

The templates escape all values; only `markdown_html` turns texts into HTML. The page's security policy forbids all
scripts and external resources, and allows the page's own style sheet by a hash.
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

from skillrun.cli.formatting import count_noun, format_duration, format_price, phase_status_text, yaml_line
from skillrun.extensions.report.call_views import ReportCalls, StepView
from skillrun.extensions.report.markdown_html import MarkdownRenderer
from skillrun.extensions.report.plots import (
    ScaleCard,
    build_convergence_cards,
    build_output_trends,
    build_scale_cards,
    build_timeline_chart,
    token_bar,
)
from skillrun.extensions.report.report_data import ReportData
from skillrun.models.messages import Usage
from skillrun.questions.answers import DEFAULT, PREPARED, choices_of, context_lines
from skillrun.runtime.phase_record import UsageTotals
from skillrun.store.event_lines import Record
from skillrun.syntax.diagnostics import make_printable

TEMPLATES: Final = Path(__file__).parent / "templates"
GENERATOR: Final = "skillrun report"
"""The value of the page's `generator` tag, by which a file is recognized as a report."""
POLICY: Final = "default-src 'none'; style-src 'sha256-{}'; base-uri 'none'; form-action 'none'"
DEPTH: Final = 8  # levels of a structured reply that are formatted; deeper levels are shown as code
BRIEF: Final = 300  # characters of a tool argument that are shown
MAX_PAGE_BYTES: Final = 2_000_000  # for at most `TYPICAL_CALLS` calls; a run with more calls gets proportionally more
TYPICAL_CALLS: Final = 48
TEXT_LIMITS: Final = (100_000, 20_000, 6_000, 2_000, 500)
"""Maximum characters of a prompt part, tool result or difference, largest first.

The first limit that keeps the page small enough is used. Documents and replies are not cut.
"""


@dataclass(frozen=True)
class PhaseView:
    """A phase in one round, with its record, its events and the steps that called models."""

    anchor: str
    name: str
    round: int
    record: Record
    usage: Mapping[str, Any]
    happened: Sequence[str]
    steps: Sequence[StepView]
    scales: Sequence[ScaleCard]

    @property
    def title(self) -> str:
        return self.name if self.round == 1 else f"{self.name}, round {self.round}"

    @property
    def status(self) -> str:
        return phase_status_text("back" if self.record.get("back") else str(self.record.get("status", "")))


def render_page(data: ReportData, *, now: datetime | None = None) -> str:
    """Return the report as HTML."""
    now = now or datetime.now(UTC)
    anchors = {each.name: f"document-{number}" for number, each in enumerate(data.documents, 1)}
    calls = ReportCalls(data.calls, data.documents)
    phases = _phase_views(data, calls)
    style = (TEMPLATES / "report.css").read_text(encoding="utf-8")
    digest = base64.b64encode(sha256(style.encode()).digest()).decode()
    environment = _environment(MarkdownRenderer(anchors))
    moment = now.timestamp() if data.is_held else data.history.times.last
    most = max((each.usage.get("input", 0) + each.usage.get("output", 0) for each in phases), default=0)
    # the run's request: its first nonempty text input
    inputs = data.summary["inputs"].items()
    request = next(((name, text) for name, text in inputs if isinstance(text, str) and text.strip()), None)
    template = environment.get_template("report.html")
    largest = MAX_PAGE_BYTES * max(1.0, len(calls.views) / TYPICAL_CALLS)
    context = {
        "generator": GENERATOR,
        "policy": Markup(POLICY.format(digest)),  # noqa: S704 (a constant and a hash)
        "style": Markup(style),  # noqa: S704 (a file of the package)
        "material": data,
        "story": data.summary,
        "made_at": now,
        "request": request,
        "inputs": {name: value for name, value in data.summary["inputs"].items() if (name, value) != request},
        "used": _total_usage(data, phases),
        "deliverable": data.deliverable,
        "documents": [each for each in data.ordered_documents if each is not data.deliverable],
        "anchors": anchors,
        "calls": calls,
        "phases": phases,
        "phase_anchors": {(each.name, each.round): each.anchor for each in phases},
        "timeline": build_timeline_chart(data.history.spans, moment),
        "bars": [(each, token_bar(each.usage, most)) for each in phases if each.usage.get("calls")],
        "courses": build_output_trends(data.summary["phases"]),
        "waiting": [each for each in data.history.exchanges if each.answer is None],
        "answered": [each for each in data.history.exchanges if each.answer is not None],
        "sections": list(enumerate(data.sections, 1)),
        "changed": [each for each in data.documents if each.changes],
    }
    page = ""
    for limit in TEXT_LIMITS:
        page = template.render(context, limit=limit)
        if len(page.encode("utf-8", "replace")) <= largest:
            break
    return page


def _environment(prose: MarkdownRenderer) -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # remove invisible and reordering characters from the texts that are written to the page
        finalize=lambda value: (
            make_printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value
        ),
    )
    environment.filters |= {
        "document": prose.render_document,
        "reply": prose.render_reply,
        "prose": prose.render_line,
        "money": format_price,
        "duration": format_duration,
        "number": lambda number: f"{number:,}",
        "value": lambda number: f"{number:,.2f}".rstrip("0").rstrip("."),
        "counted": count_noun,
        "yaml": _as_yaml,
        "percent": lambda number: f"{number:.2f}%",
        "given": _answer_source,
        "choices": _choices,
        "beside": context_lines,
        "difference": _classify_diff_lines,
        "moment": _format_time,
        "cut": _truncate,
        "brief": lambda text: text if len(text) <= BRIEF else f"{text[:BRIEF]}…",
    }
    environment.globals |= {"DEPTH": DEPTH}
    return environment


def _phase_views(data: ReportData, calls: ReportCalls) -> list[PhaseView]:
    """Return every phase of every round. A phase that made calls is included even if it has no record."""
    records = {(phase["phase"], phase["round"]): phase for phase in data.summary["phases"]}
    for call in calls.views:
        key = (call.conversation.phase, call.conversation.round)
        records.setdefault(
            key, {"status": "", "outputs": {}, "usage": {}, "reason": "", "warnings": [], "artifacts": []}
        )
    views = []
    for number, ((name, in_round), record) in enumerate(records.items(), 1):
        steps = calls.steps(name, in_round)
        happened = [
            each["text"] for each in data.summary["happened"] if (each["phase"], each["round"]) == (name, in_round)
        ]
        usage: Mapping[str, Any] = record["usage"]
        if not usage.get("calls"):  # an unfinished phase: its record has no usage yet
            turns = [turn.reply for step in steps for call in step.calls for turn in call.conversation.turns]
            replies = [UsageTotals(1, reply.usage, reply.price) for reply in turns if reply is not None]
            usage = sum(replies, UsageTotals()).to_dict()
        scales = [*build_convergence_cards(record["outputs"]), *build_scale_cards(steps)]
        views.append(PhaseView(f"phase-{number}", name, in_round, record, usage, happened, steps, scales))
    return views


def _total_usage(data: ReportData, phases: Sequence[PhaseView]) -> Mapping[str, Any]:
    if "usage" in data.summary:
        used: Mapping[str, Any] = data.summary["usage"]
        return used
    every = [
        UsageTotals(
            each.usage.get("calls", 0),
            Usage(*(each.usage.get(key, 0) for key in ("input", "output", "cache_read", "cache_write"))),
            each.usage.get("price", 0.0),
        )
        for each in phases
    ]
    return sum(every, UsageTotals()).to_dict()


def _answer_source(answer: Mapping[str, Any]) -> str:
    """Describe who gave an answer."""
    sources = {DEFAULT: "default used without asking", PREPARED: "prepared before the run"}
    return sources.get(str(answer.get("answered_by")), "answered by the user")


def _choices(question: Any) -> list[tuple[str, bool]]:
    """Return each choice of a question, and whether it was chosen."""
    answer = question.get("answer")
    chosen = [str(item) for item in (answer if isinstance(answer, list) else [answer])]
    return [(str(choice), str(choice) in chosen) for choice in choices_of(question)]


def _classify_diff_lines(lines: Sequence[str], limit: int) -> list[tuple[str, str]]:
    """Return the CSS class and text of each line of a difference, up to `limit` characters."""
    kinds = {"+": "more", "-": "less", "@": "at"}
    rows: list[tuple[str, str]] = []
    for number, line in enumerate(lines):
        limit -= len(line)
        if limit < 0:
            return [*rows, ("at", f"… {count_noun(len(lines) - number, 'more line')}")]
        rows.append((kinds.get(line[:1], "same"), line))
    return rows


def _as_yaml(value: Any) -> str:
    try:
        return yaml_line(value)
    except RecursionError:
        return "… nested too deeply to show"


def _truncate(text: str, limit: int) -> str:
    omitted = len(text) - limit
    return f"{text[:limit]}\n… {count_noun(omitted, 'more character')}" if omitted > 0 else text


def _format_time(at: Any) -> str:
    """Format a time for readers, in UTC."""
    try:
        moment = at if isinstance(at, datetime) else datetime.fromisoformat(str(at))
    except ValueError:
        return str(at)
    return f"{moment.astimezone(UTC):%-d %B %Y, %H:%M} UTC"
