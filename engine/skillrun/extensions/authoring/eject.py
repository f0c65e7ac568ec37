"""`skillrun eject` copies a shipped file into the project. `skillrun outdated` compares the copies with the shipped
files, and merges changes.

`.skillrun/ejected/` has the original of each copy, under the same path as in the project. Users should commit the
originals, because a three-way merge needs the common ancestor.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path, PurePosixPath
from typing import Final

import click

from skillrun.cli import completion
from skillrun.cli.formatting import count_noun
from skillrun.cli.new import has_file
from skillrun.cli.options import as_json, current_project, relative_to_cwd, relative_to_project
from skillrun.cli.output import Output
from skillrun.library.roots import package_library, shipped_files
from skillrun.repository.confined_folder import ConfinedFolder
from skillrun.repository.git import LOCAL, Git, GitFailed
from skillrun.repository.user_files import create_files
from skillrun.syntax.diagnostics import SkillrunError, Suggestion, UsageError, allowed_hint, did_you_mean
from skillrun.syntax.document import find_conflict_marks
from skillrun.syntax.source import MAX_PROSE
from skillrun.version import __version__

ORIGINALS: Final = ".skillrun/ejected"
SHIPPED_PREFIX: Final = "skillrun:"  # prefix for the path of a shipped file in messages

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
MAX_CONFLICTS: Final = 127  # git's exit code is the number of conflicts, up to this value; higher codes are errors
SIDE_LABELS: Final = ("yours", "ejected", f"shipped with skillrun {__version__}")  # labels in conflict markers


@click.command(
    name="eject",
    help="Copy the built-in file PATH, such as skills/plan/research.md, into the project, so that you can change it.",
)
@click.argument("path", shell_complete=completion.shipped_paths)
@as_json
def eject_command(path: str, out: Output) -> int:
    project = current_project()
    name = path.removeprefix(SHIPPED_PREFIX).removeprefix("./")
    shipped = shipped_files()
    if name not in shipped:
        inside = [path for path in shipped if path.startswith(f"{name.rstrip('/')}/")]
        hint = f"one of {', '.join(inside)}" if inside else _suggest_path(name, shipped)
        raise UsageError(f"`{name}` is not a shipped file", hint or f"the shipped files are in {package_library()}")
    if name.startswith("config/"):
        keys = f"{package_library() / name} lists all keys"
        hint = f"in the project's {name}, write only the keys that you change; {keys}"
        raise UsageError(f"{name} cannot be ejected: config files are merged key by key", hint)
    target = relative_to_cwd(project / name)
    file = next((file for file in find_overrides(project) if file.path == name), None)
    if file is not None and file.current is not None and file.original is not None:
        raise UsageError(
            f"{target} is already ejected", "`skillrun outdated` shows whether the shipped file has changed"
        )
    if has_file(project, name) and (file is None or file.current != file.shipped):
        hint = "your file overrides the shipped file; `skillrun outdated --diff` shows the differences"
        raise UsageError(f"{target} already exists", hint)
    text, original = _read_shipped_file(name), f"{ORIGINALS}/{name}"
    created = create_files(project, {name: text, original: text}, project)
    if original not in created:  # the project had the file before
        with ConfinedFolder(project, links=True) as tree:
            _replace(tree, original, text)
    out.lines(f"created  {relative_to_cwd(project / path_made)}" for path_made in created)
    out.line(
        f"next: edit {target}; `skillrun outdated` shows whether the shipped file has changed; `--merge` merges it"
    )
    out.data({"made": created})
    return 0


def _suggest_path(name: str, known: Sequence[str]) -> str:
    """Return a hint with the paths that the name may refer to, or with the closest path."""
    last = PurePosixPath(name).name
    named = [path for path in known if last in (PurePosixPath(path).name, PurePosixPath(path).stem)]
    if not named and not (near := did_you_mean(name, known)):
        stems = {PurePosixPath(path).stem: path for path in known}
        near = did_you_mean(last, stems)
        named = [stems[near.meant]] if isinstance(near, Suggestion) else []
    return f"did you mean {' or '.join(f'`{path}`' for path in named)}?" if named else near


@click.command(
    help="List the project's files that replace built-in files, and show which built-in files have changed.\n\n"
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
def outdated_command(paths: tuple[str, ...], diff: bool, merge: bool, out: Output) -> int:
    project = current_project()
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
        out.lines(["", *lines] if lines else [])
    old = [file for file in files if file.status == "outdated"]
    if old:
        number = count_noun(len(old), "file")
        out.line(f"next: `skillrun outdated --merge` merges {number}, `--diff` shows the differences")
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
            known = allowed_hint(by_path) if by_path else "`skillrun eject PATH` copies a shipped file"
            hint = did_you_mean(path, by_path) or known
            raise UsageError(f"`{path}` does not override a shipped file", hint)
        chosen.append(file)
    return chosen if paths else files


def _merge(project: Path, file: FileOverride, out: Output) -> None:
    """If the shipped file has changed since ejecting, merge its changes into the project's file."""
    current, original, shipped = file.current, file.original, file.shipped
    if current is None or original is None or shipped is None or original == shipped or file.status == "conflict":
        return
    text, in_conflict = (current, False) if current == shipped else merge_texts(current, original, shipped)
    with ConfinedFolder(project, links=True) as tree:
        _replace(tree, file.path, text)
        _replace(tree, f"{ORIGINALS}/{file.path}", shipped)
    rest = ", with conflict markers where both versions changed" if in_conflict else ""
    out.line(f"merged    {relative_to_cwd(project / file.path)}{rest}")


def _difference(file: FileOverride) -> Iterator[str]:
    """Yield how the shipped file changed since ejecting, and how the project's file differs from it."""
    label = f"{SHIPPED_PREFIX}{file.path}"
    pairs = [(file.shipped, file.current, label, file.path)]
    if file.status == "outdated":
        pairs.insert(0, (file.original, file.shipped, f"{label} when ejected", label))
    for before, after, name, other in pairs:
        if before is not None and after is not None:
            yield from unified_diff(before.splitlines(), after.splitlines(), name, other, lineterm="")


def merge_texts(current: str, original: str, shipped: str) -> tuple[str, bool]:
    """Return a text with the changes of both `current` and `shipped`, and whether it has conflict markers.

    The line endings are the same as in `current`. Raises SkillrunError if git is missing or fails.
    """
    with tempfile.TemporaryDirectory(prefix="skillrun-") as folder:
        settings = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
        git = Git.find(Path(folder), {**LOCAL, **settings, "GIT_CEILING_DIRECTORIES": str(Path(folder).parent)})
        if git is None:
            hint = "install git, or apply the changes from `skillrun outdated --diff` manually"
            raise SkillrunError("merging requires git, which is not installed", hint)
        if "\r\n" in current:
            original, shipped = original.replace("\n", "\r\n"), shipped.replace("\n", "\r\n")
        for name, text in zip(SIDE_LABELS, (current, original, shipped), strict=True):
            (Path(folder) / name).write_bytes(text.encode("utf-8", "surrogateescape"))
        labels = [word for name in SIDE_LABELS for word in ("-L", name)]
        try:
            done = asyncio.run(git.run("merge-file", "-p", "-q", *labels, *SIDE_LABELS))
        except (GitFailed, TimeoutError) as error:
            raise SkillrunError(f"git cannot merge: {str(error) or 'it takes too long'}") from error
    if not 0 <= done.code <= MAX_CONFLICTS:
        raise SkillrunError(f"git cannot merge: {done.messages.strip()}")
    return done.output.decode("utf-8", "surrogateescape"), done.code > 0


@dataclass(frozen=True)
class FileOverride:
    """A file of the project at the path of a shipped file.

    `current` is the project's text, None if the project no longer has the file. `original` is the shipped text at the
    time of ejecting, None if the file was not ejected. `shipped` is the shipped text, None if skillrun no longer has
    the file.
    """

    path: str
    current: str | None
    original: str | None
    shipped: str | None

    @property
    def status(self) -> str:
        """The status of the file; `STATUS_DESCRIPTIONS` describes each."""
        if self.current is None:
            return "removed"
        if self.shipped is None:
            return "gone"
        if find_conflict_marks(self.current):
            return "conflict"
        if self.current == self.shipped:
            return "same"
        if self.original is None:
            return "by hand"
        return "changed" if self.original == self.shipped else "outdated"


def find_overrides(project: Path) -> list[FileOverride]:
    """Return the project's files that were ejected or that override a shipped file.

    Config files are left out, since they are merged with the shipped ones. Raises PathRefused if a file is outside the
    project, and OSError.
    """
    if Path(os.path.realpath(project)) == Path(os.path.realpath(package_library())):
        return []
    shipped = {path: _read_shipped_file(path) for path in shipped_files() if not path.startswith("config/")}
    with ConfinedFolder(project, links=True) as tree:
        paths = sorted({*_original_paths(tree), *shipped})
        files = (
            FileOverride(path, _read(tree, path), _read(tree, f"{ORIGINALS}/{path}"), shipped.get(path))
            for path in paths
        )
        return [file for file in files if file.current is not None or file.original is not None]


def _read_shipped_file(path: str) -> str:
    return (package_library() / path).read_text("utf-8")


def _original_paths(tree: ConfinedFolder) -> Iterator[str]:
    """Yield the paths of the ejected files."""
    folders = [ORIGINALS]
    while folders:
        folder = folders.pop()
        if not tree.is_folder(folder):
            continue
        for name, kind in tree.entries(folder):
            if kind == "folder":
                folders.append(f"{folder}/{name}")
            elif name.endswith(".md"):
                yield f"{folder}/{name}".removeprefix(f"{ORIGINALS}/")


def _read(tree: ConfinedFolder, path: str) -> str | None:
    try:
        content = tree.read(path, MAX_PROSE)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return content.decode("utf-8", "surrogateescape")


def _replace(tree: ConfinedFolder, path: str, text: str) -> None:
    """Replace the content of a file atomically, and keep its mode."""
    with tree.open_path(path) as opened:
        name, mode = opened.name, os.fstat(opened.descriptor).st_mode & 0o777
    tree.write(name, text.encode("utf-8", "surrogateescape"), mode=mode, is_exact=True)
