"""Reports files of the user that a run does not read: they do not match, are links, or arrive too late."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress

from skillrun.events import Notice
from skillrun.runtime.run import Run
from skillrun.types.schemas import quote_value

MOST: int = 200  # folder entries to examine
DEEPEST: int = 3  # levels of folders to examine


def pattern_folder(pattern: str) -> str:
    """Return the folder that a pattern names before its first wildcard; empty for the run folder."""
    return re.split(r"[*?[]", pattern)[0].rpartition("/")[0]


def ignored_files(run: Run, pattern: str, matched: Collection[str]) -> list[str]:
    """Return a line for each ignored file or link in the pattern's folder; the line says why it is ignored."""
    folder = pattern_folder(pattern)
    if not folder:
        return []
    own = set(run.store.artifacts.list_names())
    lines = []
    for name, kind in _walk(run, folder):
        hidden = any(part.startswith(".") for part in name.split("/"))
        if (
            hidden
            or name in matched
            or name in own
            or (kind == "folder" and name.rpartition("/")[2].startswith("round-"))
        ):
            continue
        if kind == "folder":
            continue
        why = "is a link, and links are not followed" if kind == "link" else f"does not match `{pattern}`"
        lines.append(f"{quote_value(name)} {why}, so it is ignored")
    return lines


def _walk(run: Run, folder: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the kind of each entry of a folder and its subfolders, to a limited depth.

    Hidden folders and the folders of other rounds are not opened.
    """
    left = [(folder, 1)]
    seen = 0
    while left:
        name, depth = left.pop(0)
        with suppress(OSError):
            for leaf, kind in run.store.files.entries(name):
                seen += 1
                if seen > MOST:
                    return
                path = f"{name}/{leaf}"
                if kind == "folder" and depth < DEEPEST and not re.fullmatch(r"round-\d+|\..*", leaf):
                    left.append((path, depth + 1))
                yield path, kind


def warn_of_late_files(run: Run, done: Collection[str]) -> None:
    """Warn of files that match a pattern of an ended phase, and arrived after the phase had read its files."""
    read: dict[tuple[str, str], set[str]] = {}  # keyed by phase and pattern; the files of all rounds and passes
    for entry in run.journal.entries("tool"):
        pattern, files = entry.body.get("pattern"), entry.body.get("files")
        phase = f"{entry.address}/".split("/")[1]
        if isinstance(pattern, str) and isinstance(files, list) and phase in done:
            read.setdefault((phase, pattern), set()).update(files)
    for (_, pattern), known in read.items():
        for text in late_files(run, pattern, known):
            run.emit(Notice(text, "warn"))


def late_files(run: Run, pattern: str, known: Iterable[str]) -> list[str]:
    """Return a line for each file that matches the pattern and is not `known`, the files that were read."""
    before = set(known)
    return [
        f"{quote_value(name)} arrived after the files that match `{pattern}` were read, so it is ignored"
        for name in run.store.matching(pattern)
        if name not in before
    ]
