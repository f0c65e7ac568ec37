"""Files and folders that the user names on the command line.

They may be anywhere. But a project may come from someone else, so nothing in the project's repository redirects a name:
there, links that lead out are refused, and files are replaced only if they are regular files.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from skillrun.repository.confined_folder import FILE_MODE, ConfinedFolder, check_name
from skillrun.repository.gitignore import is_repository
from skillrun.repository.paths import PathRefused
from skillrun.syntax.diagnostics import SkillrunError, UsageError

HEAD_BYTES = 2_000  # the start of a written file, which shows what wrote it
OTHER_FILE_HINT = "choose another name, or move the file"


@contextmanager
def open_user_path(path: Path, project: Path) -> Iterator[tuple[ConfinedFolder, str]]:
    """Yield an open folder, and the name below it, for a path on the command line.

    The folder is the project or the root of its outermost repository if the path leads into it, or else the nearest
    existing parent of the path. `..` is removed before links are resolved. Raises PathRefused for an invalid path.
    """
    typed = Path(os.path.abspath(check_name(os.fspath(path))))  # noqa: PTH100 (does not resolve links)
    folders = {os.path.realpath(folder): folder for folder in reversed(typed.parents)}
    top = Path(os.path.realpath(project))
    repository = next((folder for folder in reversed(top.parents) if is_repository(folder)), top)  # the outermost
    existing = next(folder for folder in typed.parents if os.path.isdir(folder))  # noqa: PTH112 (raises nothing)
    base = folders.get(str(top)) or folders.get(str(repository)) or existing
    with ConfinedFolder(Path(os.path.realpath(base)), links=True) as folder:
        yield folder, typed.relative_to(base).as_posix()


def create_files(path: Path, files: Mapping[str, str], project: Path) -> list[str]:
    """Write the files that do not exist into the folder `path`, with all missing folders, and return their names.

    Raises PathRefused if a link leads out of the project, and OSError if a file cannot be written.
    """
    written = []
    for name, text in files.items():
        with open_user_path(path / name, project) as (folder, below):
            if folder.create(below, text.encode("utf-8")):
                written.append(name)
    return written


class OutputFile(NamedTuple):
    """A file that a command writes where the user says. `exists` says whether an earlier output will be replaced."""

    path: Path
    project: Path
    exists: bool

    @classmethod
    def open(cls, path: Path, project: Path, marker: bytes, kind: str) -> OutputFile:
        """Return the file, which is missing or starts with the output of this command: its start has `marker`.

        Raises UsageError if the path is taken by anything else than a `kind`, or if its folder is missing.
        """
        try:
            with open_user_path(path, project) as (folder, name):
                if marker in folder.read(name, HEAD_BYTES, follow=False):
                    return cls(path, project, exists=True)
        except FileNotFoundError:
            if os.path.lexists(path.parent):
                return cls(path, project, exists=False)
            raise UsageError(f"the folder {path.parent} does not exist", "create it, or choose another file") from None
        except PermissionError as error:
            raise UsageError(f"{path} cannot be read: {error.strerror}", "choose another file") from error
        except PathRefused as error:
            raise UsageError(f"the {kind} cannot be written: {error.message}", error.next_step) from None
        except OSError:  # a link or a folder
            pass
        raise UsageError(f"{path} exists and is not a {kind}", OTHER_FILE_HINT)

    def write(self, content: bytes, mode: int = FILE_MODE) -> None:
        """Write the file atomically. Raises SkillrunError if this is not permitted."""
        try:
            with open_user_path(self.path, self.project) as (folder, name):
                folder.write(name, content, mode=mode)
        except PermissionError as error:
            raise SkillrunError(f"no permission to write to {self.path.parent}", "choose another file") from error
