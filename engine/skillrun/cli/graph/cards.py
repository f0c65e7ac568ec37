"""Draws a phase as a card: its title, when it runs, and a row for each step, with loops as nested boxes."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

from skillrun.cli.graph.labels import FAMILIES, clean, cut_note, phase_notes, step_row
from skillrun.cli.graph.model import PhaseNode, StepNode
from skillrun.cli.graph.typesetting import CHIP_PADDING, TextRun, break_lines, layout_parts

PADDING: Final = 16.0
VERB_WIDTH: Final = 64.0
LINE: Final = 21.0
NOTE_LINE: Final = 17.0
WIDE_CARD: Final = 760.0  # wider cards have notes to the right of a step instead of below it
SHARE: Final = 0.6  # of a wide card, for the steps
_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass
class PhaseCard:
    """The SVG elements of a card, relative to its top left corner, and the vertical position of each step."""

    width: float
    height: float = 0.0
    parts: list[str] = field(default_factory=list)
    anchors: list[tuple[StepNode, float]] = field(default_factory=list)


def draw_card(phase: PhaseNode, number: int, width: float) -> PhaseCard:
    """Draw the card of a phase with the given width; its height depends on the content."""
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
    """Yield a line of a step: roles as chips, text between them as one element to avoid gaps in any font."""
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
    """Return a line of text whose baseline starts at a point, or is centred on it."""
    anchor = ' text-anchor="middle"' if middle else ""
    return f'<text x="{x:g}" y="{y:g}" class="{style}"{anchor}>{escape(text)}</text>'


def escape(text: str) -> str:
    """Escape a text for XML and remove characters that XML does not allow."""
    return html.escape(_NOT_XML.sub("", text))
