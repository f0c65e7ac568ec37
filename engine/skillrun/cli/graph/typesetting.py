"""Measures and breaks text for a picture whose fonts are unknown."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from rich.cells import cell_len

from skillrun.cli.graph.labels import LabelPart

SIZES: Final = {"title": 22, "heading": 16, "note": 12, "code": 12, "file": 12, "verb": 12, "label": 12}
"""The font size of each style in pixels; other styles have 13."""
MONOSPACE: Final = frozenset({"code", "file"})
BOLD: Final = frozenset({"title", "heading", "name", "verb"})
CHIP_PADDING: Final = 7.0
# Widths in em, close to a wide font (DejaVu Sans); in Helvetica or Arial, text is about 10 % narrower.
NARROW: Final = frozenset("iIjlrtf.,:;!|'()[]{}/\\ -`\"")
WIDE: Final = frozenset("mwMWGOQ@%…")


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
    ems = sum(_character_width(character) for character in text)
    return ems * size * (1.12 if style in BOLD else 1.0)


def _character_width(character: str) -> float:
    if not character.isascii() and character != "…":
        return max(0.7, 0.7 * cell_len(character)) if cell_len(character) else 0.2
    if character in NARROW:
        return 0.37
    if character in WIDE:
        return 1.0
    return 0.7 if character.isupper() else 0.59


def break_lines(text: str, style: str, width: float) -> list[str]:
    """Break a text into lines of at most `width` pixels."""
    return [" ".join(run.text for run in line) for line in layout_parts([LabelPart("words", text)], width, style)]


def layout_parts(parts: Iterable[LabelPart], width: float, style: str = "") -> list[list[TextRun]]:
    """Return the parts in lines of at most `width` pixels. Roles are not broken; other text breaks between words."""
    lines: list[list[TextRun]] = [[]]
    x = 0.0
    for piece in parts:
        part_style = style or piece.kind
        space = text_width(" ", part_style)
        padding = CHIP_PADDING if part_style == "role" else 0.0
        words = [piece.text] if part_style == "role" else piece.text.split(" ")
        for number, word in enumerate(
            part for each in filter(None, words) for part in _split_word(each, part_style, width - 2 * padding)
        ):
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
            x += size + max(space, 6.0 if part_style == "role" else 0.0)
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
