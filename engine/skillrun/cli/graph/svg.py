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

from rich.cells import cell_len

from skillrun.cli.graph.labels import (
    FAMILIES,
    LabelPart,
    clean,
    cut_note,
    describe_limit,
    graph_summary,
    omissions,
    phase_notes,
    step_line,
    step_notes,
)
from skillrun.cli.graph.model import PhaseNode, StepNode, WorkflowGraph

MAX_PHASES: Final = 120
MAX_STEPS: Final = 1_000
WIDTH: Final = 1280
MARGIN: Final = 28
GAP: Final = 44  # between cards, in both directions
CARDS_PER_ROW: Final = 3
LANE: Final = 14  # distance between parallel lines
MAX_LANES: Final = 8
LABEL_WIDTH: Final = 132
PADDING: Final = 16.0
VERB_WIDTH: Final = 64.0
LINE: Final = 21.0
NOTE_LINE: Final = 17.0
WIDE_CARD: Final = 760.0  # wider cards have notes to the right of a step instead of below it
SHARE: Final = 0.6  # of a wide card's width, for the steps; the rest is for notes
_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

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
# Fonts are unknown, so text is measured with estimates. Sizes are in pixels; other styles have 13.
SIZES: Final = {"title": 22, "heading": 16, "note": 12, "code": 12, "file": 12, "verb": 12, "label": 12}
MONOSPACE: Final = frozenset({"code", "file"})
BOLD: Final = frozenset({"title", "heading", "name", "verb"})
CHIP_PADDING: Final = 7.0
# Widths in em, close to a wide font (DejaVu Sans); in Helvetica or Arial, text is about 10 % narrower.
NARROW: Final = frozenset("iIjlrtf.,:;!|'()[]{}/\\ -`\"")
WIDE: Final = frozenset("mwMWGOQ@%…")


def draw_svg(graph: WorkflowGraph) -> str:
    """Return the workflow as an SVG document 1,280 pixels wide. It has no scripts, external references or fonts."""
    return _Picture(graph.limit(MAX_PHASES, MAX_STEPS)).render()


class _Picture:
    """Places the cards of a workflow in rows, and routes the lines between them."""

    def __init__(self, graph: WorkflowGraph) -> None:
        self._graph = graph
        self._parts: list[str] = []
        self._cards: dict[str, PhaseCard] = {}

    def render(self) -> str:
        name, description = clean(self._graph.name), clean(self._graph.description)
        y = MARGIN + 20.0
        self._parts.append(_text_at(MARGIN, y, "title", clean(self._graph.name, 60)))
        texts = [("words", self._graph.description), *(("soft", line) for line in graph_summary(self._graph))]
        for style, text in texts:
            for line in break_lines(clean(text, 320), style, WIDTH - 2 * MARGIN):
                y += 20
                self._parts.append(_text_at(MARGIN, y, style, line))
        y = self._draw_cards(y - 12)
        for note in omissions(self._graph):
            y += 28
            self._parts.append(_text_at(MARGIN, y, "note", note))
        size = f'width="{WIDTH}" height="{y + MARGIN:g}"'
        heads = "".join(
            f'<marker id="{kind}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
            f'<path class="{kind}-head" d="M0 0L8 4L0 8z"/></marker>'
            for kind in ("edge", "back")
        )
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + MARGIN:g}" {size} role="img" '
            f'aria-labelledby="title"><title id="title">{_escape(name)}: {_escape(description)}</title>'
            f'<style>{STYLE}</style><defs>{heads}</defs><rect class="page" {size}/>' + "\n".join(self._parts) + "</svg>"
        )

    def _draw_cards(self, y: float) -> float:
        """Draw the cards in rows, with the lines between them, and return the y position of their end."""
        phases = self._graph.phases
        depth: dict[str, int] = {}
        for phase in phases:
            depth[phase.name] = 1 + max((depth.get(name, -1) for name in phase.after), default=-1)
        rows: list[list[PhaseNode]] = []  # each has phases of the same depth
        for phase in sorted(phases, key=lambda phase: depth[phase.name]):
            if not rows or len(rows[-1]) == CARDS_PER_ROW or depth[rows[-1][0].name] != depth[phase.name]:
                rows.append([])
            rows[-1].append(phase)
        row_of = {phase.name: at for at, row in enumerate(rows) for phase in row}
        long_edges = list(self._long_edges(row_of))
        left = MARGIN + min(MAX_LANES, len(long_edges)) * LANE
        has_jumps = any(target in row_of for phase in phases for target in phase.back_to)
        width = WIDTH - left - MARGIN - (LABEL_WIDTH + LANE * 3 if has_jumps else 0)
        numbers = {phase.name: at for at, phase in enumerate(phases, 1)}
        for row in rows:
            y += GAP
            each = (width - GAP * (len(row) - 1)) / len(row)
            for at, phase in enumerate(row):
                card = self._cards[phase.name] = PhaseCard(left + at * (each + GAP), y, each)
                card.draw(phase, numbers[phase.name])
            y = max(self._cards[phase.name].bottom for phase in row)
        for phase in phases:
            target = self._cards[phase.name]
            for name in phase.after:
                if name in row_of and row_of[name] == row_of[phase.name] - 1:
                    source = self._cards[name]
                    start, end = source.x + source.width / 2, target.x + target.width / 2
                    path = [("V", target.y - GAP / 2), ("H", end), ("V", target.y)]
                    self._draw_line("edge", start, source.bottom, path)
        for number, (name, follower) in enumerate(long_edges):
            source, target, lane = self._cards[name], self._cards[follower], number % MAX_LANES
            low, high, inset = source.bottom + 10, target.y - 10, 24 + 8 * lane
            path = [("V", low), ("H", left - LANE * (1 + lane)), ("V", high), ("H", target.x + inset), ("V", target.y)]
            self._draw_line("edge", source.x + inset, source.bottom, path)
        self._draw_jumps(left + width)
        for card in self._cards.values():
            self._parts.append(f'<g transform="translate({card.x:g} {card.y:g})">{"".join(card.parts)}</g>')
        return y

    def _long_edges(self, row: dict[str, int]) -> Iterator[tuple[str, str]]:
        """Yield the edges that pass at least one row of cards. Edges that other edges imply are left out."""
        followed = {phase.name: phase.after for phase in self._graph.phases}
        for phase in self._graph.phases:
            near = any(row.get(name) == row[phase.name] - 1 for name in phase.after)
            for name in phase.after:
                if name not in row or row[name] >= row[phase.name] - 1:
                    continue
                pending, seen = [other for other in phase.after if other != name], set[str]()
                while near and pending and name not in seen:  # does the phase also follow `name` through another phase?
                    other = pending.pop()
                    if other not in seen:
                        seen.add(other)
                        pending.extend(followed.get(other, ()))
                if name not in seen:
                    yield name, phase.name

    def _draw_jumps(self, right: float) -> None:
        """In the right margin, draw an arrow for each backward jump; shorter arrows are closer to the cards."""
        jumps = []
        for phase in self._graph.phases:
            card = self._cards[phase.name]
            fallback = [(phase.otherwise, 24.0)] if phase.otherwise is not None else []  # at the title of the card
            for step, at in (*card.anchors, *fallback):
                for each in (step, *(step.otherwise.walk() if step.otherwise is not None else ())):
                    if each.verb == "goto" and each.target in self._cards:
                        often = f", {describe_limit(each.at_most)}" if each.at_most else ""
                        label = clean(f"back to {each.target}{often}", 80)
                        jumps.append((card, self._cards[each.target], card.y + at, label))
        entries: defaultdict[int, int] = defaultdict(int)
        labels = []
        for lane, (source, target, y, label) in enumerate(sorted(jumps, key=lambda jump: jump[2] - jump[1].y)):
            entries[id(target)] += 1
            offset = 14 * entries[id(target)]
            is_covered = source.right < right - 1  # another card is in between: go around it
            path = [("H", source.right + GAP / 2), ("V", source.y - 8)] if is_covered else []
            path.append(("H", right + LANE * (1 + lane % 3)))
            if target.right < right - 1:
                path += [("V", target.y - 14), ("H", target.right - 24 - offset), ("V", target.y)]
            else:
                path += [("V", target.y + 6 + offset), ("H", target.right)]
            self._draw_line("back", source.right, y, path)
            labels.append((source.y - 8 if is_covered else y, label))
        lowest = 0.0
        for y, label in sorted(labels):
            lines = break_lines(label, "label", LABEL_WIDTH - 8)
            top = max(y - 6, lowest)
            for at, line in enumerate(lines):
                self._parts.append(_text_at(right + LANE * 3 + 8, top + 10 + 15 * at, "label", line))
            lowest = top + 15 * len(lines) + 6

    def _draw_line(self, kind: str, x: float, y: float, path: Iterable[tuple[str, float]]) -> None:
        course = "".join(f"{command}{to:g}" for command, to in path)
        self._parts.append(f'<path class="{kind}" marker-end="url(#{kind})" d="M{x:g} {y:g}{course}"/>')


@dataclass
class PhaseCard:
    """A card and its position. The positions of SVG elements and of steps are relative to the card's top left
    corner."""

    x: float
    y: float
    width: float
    height: float = 0.0
    parts: list[str] = field(default_factory=list)
    anchors: list[tuple[StepNode, float]] = field(default_factory=list)

    @property
    def right(self) -> float:
        return self.x + self.width

    @property
    def bottom(self) -> float:
        return self.y + self.height

    def draw(self, phase: PhaseNode, number: int) -> None:
        """Draw a phase with the width of the card. The height depends on the content."""
        inner = self.width - 2 * PADDING
        y = PADDING
        for style, text, line_height in (
            ("heading", f"{number}. {clean(phase.name, 60)}", 22.0),
            ("words", clean(phase.description, 320), 19.0),
            ("note", " · ".join(phase_notes(phase)), NOTE_LINE),
        ):
            for line in break_lines(text, style, inner):
                self.parts.append(_text_at(PADDING, y + line_height - 6, style, line))
                y += line_height
        y = self._draw_steps(phase.steps, PADDING, y + 8, inner)
        if rest := cut_note(phase):
            self.parts.append(_text_at(PADDING, y + 12, "note", rest))
            y += NOTE_LINE
        self.height = y + PADDING - 4
        self.parts.insert(0, _rectangle("card", 0, 0, self.width, self.height, 10))

    def _draw_steps(self, steps: Iterable[StepNode], x: float, y: float, width: float) -> float:
        """Draw steps below each other and return the y position of their end."""
        for step in steps:
            if step.steps:
                at = len(self.parts)
                bottom = self._draw_step(step, x + 10, y + 8, width - 20)
                bottom = self._draw_steps(step.steps, x + 22, bottom, width - 34) + 6
                self.parts.insert(at, _rectangle("loop", x, y, width, bottom - y, 8))
                y = bottom + 8
            else:
                y = self._draw_step(step, x, y, width)
        return y

    def _draw_step(self, step: StepNode, x: float, y: float, width: float) -> float:
        """Draw the row of a step and return the y position of its end."""
        self.anchors.append((step, y + 10))
        self.parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{VERB_WIDTH - 8:g}" height="19" rx="5" '
            f'style="fill:var(--{FAMILIES.get(step.verb, "plain")})"/>'
            + _text_at(x + (VERB_WIDTH - 8) / 2, y + 13.5, "verb", step.verb or "error", middle=True)
        )
        room = width - VERB_WIDTH
        is_broad = self.width >= WIDE_CARD
        bottom = y
        for runs in layout_parts(step_line(step), room * SHARE - 16 if is_broad else room) or [[]]:
            self.parts += _line(runs, x + VERB_WIDTH, bottom + 14)
            bottom += LINE
        notes_x, note_y, notes_width = x + VERB_WIDTH, bottom - 2, room
        if is_broad:
            notes_x, note_y, notes_width = notes_x + room * SHARE, y, room * (1 - SHARE)
        for note in step_notes(step):
            for line in break_lines(note, "note", notes_width):
                self.parts.append(_text_at(notes_x, note_y + 14, "note", line))
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
                yield _text_at(x + run.x + run.width / 2, y, "role", run.text, middle=True)
        else:
            spans = (f'<tspan class="{run.style}">{_escape(run.text)}</tspan>' for run in same)
            yield f'<text x="{x + same[0].x:g}" y="{y:g}">{" ".join(spans)}</text>'


def _rectangle(style: str, x: float, y: float, width: float, height: float, radius: float) -> str:
    return f'<rect class="{style}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{radius:g}"/>'


def _text_at(x: float, y: float, style: str, text: str, *, middle: bool = False) -> str:
    """Return a line of text whose baseline starts at a point or, with `middle`, is centred on it."""
    anchor = ' text-anchor="middle"' if middle else ""
    return f'<text x="{x:g}" y="{y:g}" class="{style}"{anchor}>{_escape(text)}</text>'


def _escape(text: str) -> str:
    """Escape a text for XML and remove characters that XML does not allow."""
    return html.escape(_NOT_XML.sub("", text))


@dataclass(frozen=True)
class TextRun:
    """A positioned part of a line; `width` excludes padding."""

    x: float
    width: float
    style: str
    text: str


def text_width(text: str, style: str) -> float:
    """Return the width of a text in pixels, estimated generously so that the text does not overflow."""
    size = SIZES.get(style, 13)
    if style in MONOSPACE:
        return cell_len(text) * size * 0.61
    ems = 0.0
    for character in text:
        if not character.isascii() and character != "…":
            ems += max(0.7, 0.7 * cell_len(character)) if cell_len(character) else 0.2
        elif character in NARROW:
            ems += 0.37
        elif character in WIDE:
            ems += 1.0
        else:
            ems += 0.7 if character.isupper() else 0.59
    return ems * size * (1.12 if style in BOLD else 1.0)


def break_lines(text: str, style: str, width: float) -> list[str]:
    """Break a text into lines of at most `width` pixels."""
    return [" ".join(run.text for run in line) for line in layout_parts([LabelPart("words", text)], width, style)]


def layout_parts(parts: Iterable[LabelPart], width: float, style: str = "") -> list[list[TextRun]]:
    """Return the parts in lines of at most `width` pixels. Roles are not broken; other text breaks between words."""
    lines: list[list[TextRun]] = [[]]
    x = 0.0
    for piece in parts:
        part_style = style or piece.kind
        is_role = part_style == "role"
        gap = max(text_width(" ", part_style), 6.0 if is_role else 0.0)
        padding = CHIP_PADDING if is_role else 0.0
        words = [piece.text] if is_role else piece.text.split()
        pieces = [part for word in words for part in _split_word(word, part_style, width - 2 * padding)]
        for number, word in enumerate(pieces):
            size = text_width(word, part_style) + 2 * padding
            if lines[-1] and x + size > width:
                lines.append([])
                x = 0.0
            last = lines[-1][-1] if lines[-1] else None
            if number and last is not None and last.style == part_style != "role":
                joined = f"{last.text} {word}"
                lines[-1][-1] = TextRun(last.x, text_width(joined, part_style), part_style, joined)
            else:
                lines[-1].append(TextRun(x + padding, size - 2 * padding, part_style, word))
            x += size + gap
    return lines if lines[0] else []


def _split_word(word: str, style: str, width: float) -> list[str]:
    """Return a word in parts that each fit in a line."""
    if text_width(word, style) <= width:
        return [word]
    parts, room = [""], width
    for character in word:
        size = text_width(character, style)
        if size > room and parts[-1]:
            parts.append("")
            room = width
        parts[-1] += character
        room -= size
    return parts
