"""Random mutants of the shipped_files files: mistakes of authors, and hostile input."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Final

LIBRARY: Final = Path(__file__).parents[2]
FOLDERS: Final = ("workflows", "skills", "roles", "config")
SPLICED: Final = (
    "{{", "}}", "{%", "%}", "{#", "#}", "---", "## ", "\\## ", "- ", ": ", "[", "]", "{", "}", "'", '"', "|", ">", "&a",
    "*a", "!t", "\t", "\n", "\n\n", "  ", "\r\n", "\u2028", "\ufeff", "\0", "\x1b[31m", "é", "漢", "😀", "null",
    "1e999", "{{ x", "{% if x %}", "{% endfor %}", "{% set x = x %}", " | map(attribute='x')", "```", "~~~", "phases:",
    "steps:", "when:", "repeat:", "a.b.c", "0..1", "(array)", "(enum)", "?", "@", ":", ",",
)  # fmt: skip


def shipped_files() -> list[str]:
    """The relative paths of the files in the library."""
    found = (path for folder in FOLDERS for path in (LIBRARY / folder).rglob("*") if path.suffix in (".md", ".yaml"))
    return sorted(path.relative_to(LIBRARY).as_posix() for path in found if path.name != "README.md")


def mutants(seed: int, count: int) -> Iterator[tuple[str, bytes]]:
    """Yield `count` mutants of shipped_files files: the path and the content."""
    random = Random(seed)
    paths = shipped_files()
    texts = {path: (LIBRARY / path).read_text(encoding="utf-8") for path in paths}
    for _ in range(count):
        path = random.choice(paths)
        text = texts[path]
        for _ in range(random.choice((1, 1, 1, 2, 5))):
            text = _mutate(text, random, texts[random.choice(paths)])
        yield path, _encode(text, random)


def _mutate(text: str, random: Random, other: str) -> str:
    start = random.randrange(len(text) + 1)
    end = min(len(text), start + random.choice((1, 1, 3, 20, 200)))
    lines = text.split("\n")
    at = random.randrange(len(lines))
    match random.randrange(8):
        case 0:
            return text[:start] + text[end:]
        case 1:
            return text[:start] + random.choice(SPLICED) + text[start:]
        case 2:
            return text[:start] + text[start:end] * random.choice((2, 3, 50)) + text[end:]
        case 3:
            return "\n".join([*lines[:at], *lines[at + 1 :]])
        case 4:
            return "\n".join(
                [*lines[:at], random.choice(("", " ", "    ", "\t")) + lines[at].lstrip(), *lines[at + 1 :]]
            )
        case 5:
            place = random.randrange(len(lines))
            lines[at], lines[place] = lines[place], lines[at]
            return "\n".join(lines)
        case 6:
            begin = random.randrange(len(other) + 1)
            return text[:start] + other[begin : begin + 100] + text[end:]
    return text[:start] + text[start:end].swapcase()[::-1] + text[end:]


def _encode(text: str, random: Random) -> bytes:
    """Encode the text, nearly always as UTF-8 with unchanged line ends."""
    match random.randrange(40):
        case 0:
            return text.replace("\n", "\r\n").encode("utf-8", "replace")
        case 1:
            return text.replace("\n", "\r").encode("utf-8-sig", "replace")
        case 2:
            return text.encode("utf-16", "replace")
        case 3:
            return text.encode("utf-16-le", "replace")
        case 4:
            return text.encode("latin-1", "replace").replace(b"e", b"\xe9", 1)
    return text.encode("utf-8", "replace")
