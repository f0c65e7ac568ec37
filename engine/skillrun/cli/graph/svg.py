"""Draws a workflow as a self-contained SVG picture: a card for each phase, arrows between the
cards, and arrows for jumps back."""

from __future__ import annotations

import html
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

from skillrun.cli.graph.labels import (
    FAMILIES,
    clean,
    cut_note,
    describe_limit,
    graph_summary,
    omissions,
    phase_notes,
    step_row,
)
from skillrun.cli.graph.model import PhaseNode, StepNode, WorkflowGraph
from skillrun.cli.graph.typesetting import CHIP_PADDING, TextRun, break_lines, layout_parts

PADDING: Final = 16.0
VERB_WIDTH: Final = 64.0
LINE: Final = 21.0
NOTE_LINE: Final = 17.0
WIDE_CARD: Final = 760.0  # wider cards have notes to the right of a step instead of below it
SHARE: Final = 0.6  # of a wide card's width, for the steps; the rest is for notes
_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass
class PhaseCard:
    """The SVG elements of a card, relative to its top left corner, and the vertical position of each step."""

    width: float
    height: float = 0.0
    parts: list[str] = field(default_factory=list)
    anchors: list[tuple[StepNode, float]] = field(default_factory=list)


def draw_card(phase: PhaseNode, number: int, width: float) -> PhaseCard:
    """Return the card of a phase, drawn with the given width. Its height depends on the content."""
    card = PhaseCard(width)
    inner = width - 2 * PADDING
    y = PADDING
    for style, text, line_height in (
        ("heading", f"{number}. {clean(phase.name, 60)}", 22.0),
        ("words", clean(phase.description, 320), 19.0),
        ("note", " · ".join(phase_notes(phase)), NOTE_LINE),
    ):
        for line in break_lines(text, style, inner):
            card.parts.append(text_at(PADDING, y + line_height - 6, style, line))
            y += line_height
    y = _draw_steps(card, phase.steps, PADDING, y + 8, inner)
    rest = cut_note(phase)
    if rest:
        card.parts.append(text_at(PADDING, y + 12, "note", rest))
        y += NOTE_LINE
    card.height = y + PADDING - 4
    card.parts.insert(0, _rectangle("card", 0, 0, width, card.height, 10))
    return card


def _draw_steps(card: PhaseCard, steps: Iterable[StepNode], x: float, y: float, width: float) -> float:
    """Draw steps below each other and return the y position of their end."""
    for step in steps:
        if step.steps:
            at = len(card.parts)
            bottom = _draw_step(card, step, x + 10, y + 8, width - 20)
            bottom = _draw_steps(card, step.steps, x + 22, bottom, width - 34) + 6
            card.parts.insert(at, _rectangle("loop", x, y, width, bottom - y, 8))
            y = bottom + 8
        else:
            y = _draw_step(card, step, x, y, width)
    return y


def _draw_step(card: PhaseCard, step: StepNode, x: float, y: float, width: float) -> float:
    """Draw the row of a step and return the y position of its end."""
    row = step_row(step)
    card.anchors.append((step, y + 10))
    card.parts.append(
        f'<rect x="{x:g}" y="{y:g}" width="{VERB_WIDTH - 8:g}" height="19" rx="5" '
        f'style="fill:var(--{FAMILIES.get(row.verb, "plain")})"/>'
        + text_at(x + (VERB_WIDTH - 8) / 2, y + 13.5, "verb", row.verb, middle=True)
    )
    room = width - VERB_WIDTH
    is_broad = card.width >= WIDE_CARD
    main = room * SHARE - 16 if is_broad else room
    bottom = y
    for runs in layout_parts(row.pieces, main) or [[]]:
        card.parts += _line(runs, x + VERB_WIDTH, bottom + 14)
        bottom += LINE
    notes_x, note_y, notes_width = (
        (x + VERB_WIDTH + room * SHARE, y, room * (1 - SHARE)) if is_broad else (x + VERB_WIDTH, bottom - 2, room)
    )
    for note in row.notes:
        for line in break_lines(note, "note", notes_width):
            card.parts.append(text_at(notes_x, note_y + 14, "note", line))
            note_y += NOTE_LINE
    return max(bottom, note_y + 2) + 5


def _line(runs: Iterable[TextRun], x: float, y: float) -> Iterator[str]:
    """Yield the elements of a step's line. Each role is a chip.

    The text between two roles is a single element, so that no font leaves gaps in it.
    """
    for is_chip, group in groupby(runs, lambda run: run.style == "role"):
        same = list(group)
        if is_chip:
            for run in same:
                yield _rectangle("chip", x + run.x - CHIP_PADDING, y - 14, run.width + 2 * CHIP_PADDING, 19, 9)
                yield text_at(x + run.x + run.width / 2, y, "role", run.text, middle=True)
        else:
            spans = (f'<tspan class="{run.style}">{escape(run.text)}</tspan>' for run in same)
            yield f'<text x="{x + same[0].x:g}" y="{y:g}">{" ".join(spans)}</text>'


def _rectangle(style: str, x: float, y: float, width: float, height: float, radius: float) -> str:
    return f'<rect class="{style}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{radius:g}"/>'


def text_at(x: float, y: float, style: str, text: str, *, middle: bool = False) -> str:
    """Return a line of text whose baseline starts at a point or, with `middle`, is centred on it."""
    anchor = ' text-anchor="middle"' if middle else ""
    return f'<text x="{x:g}" y="{y:g}" class="{style}"{anchor}>{escape(text)}</text>'


def escape(text: str) -> str:
    """Escape a text for XML and remove characters that XML does not allow."""
    return html.escape(_NOT_XML.sub("", text))


MAX_PHASES: Final = 120
MAX_STEPS: Final = 1_000
WIDTH: Final = 1280
MARGIN: Final = 28
GAP: Final = 44  # between cards, in both directions
CARDS_PER_ROW: Final = 3  # cards in one row
LANE: Final = 14  # distance between parallel lines
MAX_LANES: Final = 8
LABEL_WIDTH: Final = 132

STYLE: Final = """
svg{color-scheme:light dark;--page:#fff;--card:#f8fafc;--border:#cbd5e1;--ink:#0f172a;--soft:#475569;--edge:#64748b;
--back:#b91c1c;--role:#dbeafe;--inner:#f1f5f9;--model:#1d4ed8;--user:#b45309;--file:#15803d;--loop:#6d28d9;
--choice:#6d28d9;--run:#0f766e;--jump:#b91c1c;--plain:#475569}
@media (prefers-color-scheme:dark){svg{--page:#0b1120;--card:#111a2e;--border:#33415c;--ink:#e2e8f0;--soft:#a3b1c6;
--edge:#8fa0b8;--back:#f87171;--role:#1e3a6e;--inner:#0d1526;--plain:#52627a}}
text{font-family:-apple-system,"Segoe UI",Roboto,Helvetica,Arial,"DejaVu Sans",sans-serif;font-size:13px;
fill:var(--ink);white-space:pre}
.title{font-size:22px;font-weight:700}.heading{font-size:16px;font-weight:700}.name{font-weight:700}
.soft{fill:var(--soft)}.note{font-size:12px;font-style:italic;fill:var(--soft)}
.code,.file{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;font-size:12px}
.verb{font-size:12px;font-weight:700;fill:#fff}.label{font-size:12px;fill:var(--back)}
.page{fill:var(--page)}.card{fill:var(--card);stroke:var(--border)}.loop{fill:var(--inner);stroke:var(--loop)}
.chip{fill:var(--role)}.edge,.back{fill:none;stroke:var(--edge);stroke-width:1.5}
.back{stroke:var(--back);stroke-dasharray:5 4}.edge-head{fill:var(--edge)}.back-head{fill:var(--back)}
"""


@dataclass(frozen=True)
class Box:
    """A card and its position in the picture."""

    card: PhaseCard
    x: float
    y: float
    row: int

    @property
    def right(self) -> float:
        return self.x + self.card.width

    @property
    def bottom(self) -> float:
        return self.y + self.card.height


@dataclass(frozen=True)
class BackArrow:
    """An arrow for a jump, from a step in a phase's card to an earlier phase."""

    source: str
    target: str
    y: float
    label: str


def draw_svg(graph: WorkflowGraph) -> str:
    """Return the workflow as an SVG document 1,280 pixels wide. It has no scripts, external references or fonts."""
    graph = graph.limit(MAX_PHASES, MAX_STEPS)
    return _Picture(graph).render()


class _Picture:
    """Places the cards of a workflow in rows, and routes the lines between them."""

    def __init__(self, graph: WorkflowGraph) -> None:
        self._graph = graph
        self._parts: list[str] = []
        names = {phase.name for phase in graph.phases}
        self._has_jumps = any(target in names for phase in graph.phases for target in phase.back_to)
        self._rows = list(_arrange_rows(graph.phases))
        self._boxes: dict[str, Box] = {}
        self._row_tops: list[float] = []

    def render(self) -> str:
        y = self._draw_heading()
        left, width = self._columns()
        number = {phase.name: at for at, phase in enumerate(self._graph.phases, 1)}
        for row, phases in enumerate(self._rows):
            y += GAP
            self._row_tops.append(y)
            each = (width - GAP * (len(phases) - 1)) / len(phases)
            for at, phase in enumerate(phases):
                card = draw_card(phase, number[phase.name], each)
                self._boxes[phase.name] = Box(card, left + at * (each + GAP), y, row)
            y = max(self._boxes[phase.name].bottom for phase in phases)
        self._draw_edges(left)
        self._draw_arrows(left + width)
        for box in self._boxes.values():
            self._parts.append(f'<g transform="translate({box.x:g} {box.y:g})">{"".join(box.card.parts)}</g>')
        for note in omissions(self._graph):
            y += 28
            self._parts.append(text_at(MARGIN, y, "note", note))
        return self._wrap(y + MARGIN)

    def _wrap(self, height: float) -> str:
        name, description = escape(clean(self._graph.name)), escape(clean(self._graph.description))
        size = f'width="{WIDTH}" height="{height:g}"'
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" {size} role="img" '
            f'aria-labelledby="title"><title id="title">{name}: {description}</title><style>{STYLE}</style>'
            f'<defs>{_head("edge")}{_head("back")}</defs><rect class="page" {size}/>'
            + "\n".join(self._parts)
            + "</svg>"
        )

    def _draw_heading(self) -> float:
        """Draw the title and return its height."""
        y = MARGIN + 20.0
        self._parts.append(text_at(MARGIN, y, "title", clean(self._graph.name, 60)))
        texts = [("words", self._graph.description), *(("soft", line) for line in graph_summary(self._graph))]
        for style, text in texts:
            for line in break_lines(clean(text, 320), style, WIDTH - 2 * MARGIN):
                y += 20
                self._parts.append(text_at(MARGIN, y, style, line))
        return y - 12

    def _columns(self) -> tuple[float, float]:
        """Return the left edge of the cards, and the width of a row of cards."""
        left = MARGIN + self._left_lanes() * LANE
        right = MARGIN + (LABEL_WIDTH + LANE * 3 if self._has_jumps else 0)
        return left, WIDTH - left - right

    def _left_lanes(self) -> int:
        return min(MAX_LANES, sum(1 for _ in self._long_edges()))

    def _long_edges(self) -> Iterator[tuple[str, str]]:
        """Yield the edges that pass at least one row of cards. Edges that other edges imply are left out."""
        row = {phase.name: at for at, phases in enumerate(self._rows) for phase in phases}
        for phase in self._graph.phases:
            near = any(row.get(name) == row[phase.name] - 1 for name in phase.after)
            for name in phase.after:
                if name in row and row[name] < row[phase.name] - 1 and not (near and self._is_implied(name, phase)):
                    yield name, phase.name

    def _is_implied(self, name: str, phase: PhaseNode) -> bool:
        """Whether the phase also follows `name` through another phase."""
        phases = {each.name: each for each in self._graph.phases}
        pending, seen = [other for other in phase.after if other != name], set[str]()
        while pending:
            other = pending.pop()
            if other == name:
                return True
            if other in phases and other not in seen:
                seen.add(other)
                pending.extend(phases[other].after)
        return False

    def _draw_edges(self, left: float) -> None:
        for phase in self._graph.phases:
            target = self._boxes[phase.name]
            for name in phase.after:
                source = self._boxes.get(name)
                if source is not None and source.row == target.row - 1:
                    start, end = source.x + source.card.width / 2, target.x + target.card.width / 2
                    middle = target.y - GAP / 2
                    self._draw_line("edge", start, source.bottom, [("V", middle), ("H", end), ("V", target.y)])
        for lane, (name, follower) in enumerate(self._long_edges()):
            source, target = self._boxes[name], self._boxes[follower]
            x = left - LANE * (1 + lane % MAX_LANES)
            low, high = source.bottom + 10, target.y - 10
            start, end = source.x + 24 + 8 * (lane % MAX_LANES), target.x + 24 + 8 * (lane % MAX_LANES)
            self._draw_line(
                "edge", start, source.bottom, [("V", low), ("H", x), ("V", high), ("H", end), ("V", target.y)]
            )

    def _draw_arrows(self, right: float) -> None:
        """In the right margin, draw an arrow for each backward jump; shorter arrows are closer to the cards."""
        jumps = sorted(self._find_arrows(), key=lambda jump: jump.y - self._boxes[jump.target].y)
        entries: dict[str, int] = defaultdict(int)
        lowest = 0.0
        labels = []
        for lane, jump in enumerate(jumps):
            source, target = self._boxes[jump.source], self._boxes[jump.target]
            x = right + LANE * (1 + lane % 3)
            entries[jump.target] += 1
            offset = 14 * entries[jump.target]
            path: list[tuple[str, float]] = []
            if source.right < right - 1:  # another card is in between: go around it
                path += [("H", source.right + GAP / 2), ("V", source.y - 8)]
            path += [("H", x)]
            if target.right < right - 1:
                path += [("V", target.y - 14), ("H", target.right - 24 - offset), ("V", target.y)]
            else:
                path += [("V", target.y + 6 + offset), ("H", target.right)]
            self._draw_line("back", source.right, jump.y, path)
            labels.append((source.y - 8 if source.right < right - 1 else jump.y, jump.label))
        for y, label in sorted(labels):
            lines = break_lines(label, "label", LABEL_WIDTH - 8)
            top = max(y - 6, lowest)
            for at, line in enumerate(lines):
                self._parts.append(text_at(right + LANE * 3 + 8, top + 10 + 15 * at, "label", line))
            lowest = top + 15 * len(lines) + 6

    def _find_arrows(self) -> Iterator[BackArrow]:
        for phase in self._graph.phases:
            box = self._boxes[phase.name]
            for step, y in (*box.card.anchors, *_fallback(phase)):
                for each in (step, *(step.otherwise.walk() if step.otherwise is not None else ())):
                    if each.verb == "goto" and each.target in self._boxes:
                        often = f", {describe_limit(each.at_most)}" if each.at_most else ""
                        yield BackArrow(phase.name, each.target, box.y + y, clean(f"back to {each.target}{often}", 80))

    def _draw_line(self, kind: str, x: float, y: float, path: Iterable[tuple[str, float]]) -> None:
        course = "".join(f"{command}{to:g}" for command, to in path)
        self._parts.append(f'<path class="{kind}" marker-end="url(#{kind})" d="M{x:g} {y:g}{course}"/>')


def _fallback(phase: PhaseNode) -> tuple[tuple[StepNode, float], ...]:
    """Return the fallback of a phase, and the height of the card's title as its position."""
    return ((phase.otherwise, 24.0),) if phase.otherwise is not None else ()


def _arrange_rows(phases: Iterable[PhaseNode]) -> Iterator[list[PhaseNode]]:
    """Yield rows of phases with the same dependency depth; rows with too many cards are split."""
    depth: dict[str, int] = {}
    levels: dict[int, list[PhaseNode]] = defaultdict(list)
    for phase in phases:
        depth[phase.name] = 1 + max((depth.get(name, -1) for name in phase.after), default=-1)
        levels[depth[phase.name]].append(phase)
    for _, level in sorted(levels.items()):
        yield from (level[start : start + CARDS_PER_ROW] for start in range(0, len(level), CARDS_PER_ROW))


def _head(kind: str) -> str:
    return (
        f'<marker id="{kind}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto">'
        f'<path class="{kind}-head" d="M0 0L8 4L0 8z"/></marker>'
    )
