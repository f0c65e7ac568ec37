"""`skillrun outdated`: lists the project's files that override shipped files, and whether the latter have changed."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from difflib import unified_diff
from pathlib import Path
from typing import Final

import click

from skillrun.cli.formatting import count_noun
from skillrun.cli.options import as_json, current_project, relative_to_cwd, relative_to_project
from skillrun.cli.output import Output
from skillrun.extensions.authoring.ejected import ORIGINALS, SHIPPED_PREFIX, FileOverride, find_overrides, save_merge
from skillrun.syntax.diagnostics import SkillrunError, UsageError, allowed_hint, did_you_mean
from skillrun.version import __version__

STATUS_DESCRIPTIONS: Final = {
    "outdated": "the shipped file has changed since you ejected it",
    "conflict": "a merge left conflict markers: resolve them",
    "gone": f"skillrun no longer has this file; to keep yours as an ordinary file, delete its original in {ORIGINALS}/",
    "removed": f"the project no longer has this file and uses the shipped one; the original is still in {ORIGINALS}/",
    "changed": "you changed this file; the shipped file has not changed",
    "by hand": "this file was not ejected, so its original version is unknown",
    "same": "identical to the shipped file, so it has no effect",
}
FAILING_STATUSES: Final = ("outdated", "conflict", "gone")


@click.command(
    help="List the project's files that replace built-in files, and show whether those have changed since.\n\n"
    "With PATH, list only these files. The exit code is 1 if a file is outdated, in conflict, or no longer built in."
)
@click.argument("paths", metavar="[PATH]...", nargs=-1)
@click.option("--diff", is_flag=True, help="Show how your files differ from the built-in files.")
@click.option(
    "--merge",
    is_flag=True,
    help="Merge the changes of the built-in files into your files, with conflict markers where both changed.",
)
@as_json
def outdated_command(paths: tuple[str, ...], diff: bool, merge: bool, json: bool) -> int:
    out, project = Output(json), current_project()
    files = _select_files(find_overrides(project), paths)
    if merge:
        for file in files:
            _merge(project, file, out)
        files = _select_files(find_overrides(project), paths)
    if not files:
        out.line("no file of this project overrides a shipped one")
    for file in files:
        out.line(f"{file.status:8}  {relative_to_cwd(project / file.path)}: {STATUS_DESCRIPTIONS[file.status]}")
    differences = {file.path: list(_difference(file)) for file in files} if diff else {}
    for lines in differences.values():
        out.line("\n".join(["", *lines])) if lines else None
    old = [file for file in files if file.status == "outdated"]
    if old:
        out.line(
            f"next: `skillrun outdated --merge` merges {count_noun(len(old), 'file')}, `--diff` shows the differences"
        )
    rows = [{"path": file.path, "status": file.status} for file in files]
    out.data([{**row, "diff": differences[row["path"]]} if diff else row for row in rows])
    return 1 if any(file.status in FAILING_STATUSES for file in files) else 0


def _select_files(files: list[FileOverride], paths: Sequence[str]) -> list[FileOverride]:
    """Return the files with these paths, or all files if `paths` is empty.

    A path is relative to the project or to the current folder. Raises UsageError if a path matches no file.
    """
    by_path = {file.path: file for file in files}
    chosen = []
    for path in paths:
        names = (path.removeprefix(SHIPPED_PREFIX), os.path.normpath(relative_to_project(path)))
        file = next((by_path[name] for name in names if name in by_path), None)
        if file is None:
            hint = did_you_mean(path, by_path) or (
                allowed_hint(by_path) if by_path else "`skillrun eject PATH` copies a shipped file"
            )
            raise UsageError(f"`{path}` does not override a shipped file", hint)
        chosen.append(file)
    return chosen if paths else files


def _merge(project: Path, file: FileOverride, out: Output) -> None:
    """If the shipped file has changed since ejecting, merge its changes into the project's file."""
    current, original, shipped = file.current, file.original, file.shipped
    if current is None or original is None or shipped is None or original == shipped or file.status == "conflict":
        return
    text, in_conflict = (current, False) if current == shipped else merge_texts(current, original, shipped)
    save_merge(project, file.path, text, shipped)
    rest = ", with conflict markers where both versions changed" if in_conflict else ""
    out.line(f"merged    {relative_to_cwd(project / file.path)}{rest}")


def _difference(file: FileOverride) -> Iterator[str]:
    """Yield how the shipped file changed since ejecting, and how the project's file differs from it."""
    label = f"{SHIPPED_PREFIX}{file.path}"
    if file.status == "outdated":
        yield from _diff_lines(file.original, file.shipped, f"{label} when ejected", label)
    yield from _diff_lines(file.shipped, file.current, label, file.path)


def _diff_lines(before: str | None, after: str | None, name: str, other: str) -> Iterator[str]:
    if before is not None and after is not None:
        yield from unified_diff(before.splitlines(), after.splitlines(), name, other, lineterm="")


MAX_CONFLICTS: Final = 127  # git's exit code is the number of conflicts, at most this; higher codes are errors
SIDE_LABELS: Final = ("yours", "ejected", f"shipped with skillrun {__version__}")  # labels in conflict markers


def merge_texts(current: str, original: str, shipped: str) -> tuple[str, bool]:
    """Return a text with the changes of both `current` and `shipped`, and whether it has conflict markers.

    The line endings are the same as in `current`. Raises SkillrunError if git is missing or fails.
    """
    git = shutil.which("git")
    if git is None:
        hint = "install git, or apply the changes from `skillrun outdated --diff` manually"
        raise SkillrunError("merging requires git, which is not installed", hint)
    if "\r\n" in current:
        original, shipped = original.replace("\n", "\r\n"), shipped.replace("\n", "\r\n")
    with tempfile.TemporaryDirectory(prefix="skillrun-") as folder:
        for name, text in zip(SIDE_LABELS, (current, original, shipped), strict=True):
            (Path(folder) / name).write_bytes(text.encode("utf-8", "surrogateescape"))
        labels = [word for name in SIDE_LABELS for word in ("-L", name)]
        done = subprocess.run(  # noqa: S603 (git, on three temporary files)
            [git, "merge-file", "-p", "-q", *labels, *SIDE_LABELS],
            cwd=folder,
            env=_environment(folder),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    if not 0 <= done.returncode <= MAX_CONFLICTS:
        raise SkillrunError(f"git cannot merge: {done.stderr.decode('utf-8', 'replace').strip()}")
    return done.stdout.decode("utf-8", "surrogateescape"), done.returncode > 0


def _environment(folder: str) -> dict[str, str]:
    settings = {"HOME": folder, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "LC_ALL": "C"}
    return {"PATH": os.environ.get("PATH", os.defpath), "GIT_CEILING_DIRECTORIES": os.path.dirname(folder), **settings}  # noqa: PTH120
