"""Opens a file in the user's editor, in this terminal."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shlex
import shutil
from pathlib import Path
from typing import Final

from skillrun.syntax.diagnostics import SkillrunError
from skillrun.syntax.reading import open_file

DEFAULT_EDITORS: Final = ("sensible-editor", "nano", "vim", "vi")
EDITOR_HINT: Final = "set `EDITOR`, as in `export EDITOR=nano`"


async def edit_file(path: Path) -> bool:
    """Open a file in the editor, and return whether the user changed it.

    The editor is the command in `$VISUAL` or `$EDITOR`, or the first default editor that is installed. Raises
    SkillrunError if there is none, or if it fails.
    """
    before = _digest(path)
    if setting := os.environ.get("VISUAL") or os.environ.get("EDITOR"):
        try:
            command = shlex.split(setting)
        except ValueError:
            command = []
        if not command:
            raise SkillrunError(f"`{setting}` is not a valid command", EDITOR_HINT)
    elif not (command := [name for name in DEFAULT_EDITORS if shutil.which(name)][:1]):
        raise SkillrunError("no editor is installed", EDITOR_HINT)
    try:
        process = await asyncio.create_subprocess_exec(*command, str(path))
    except OSError as error:
        raise SkillrunError(f"`{command[0]}` cannot be started: {error.strerror}", EDITOR_HINT) from None
    try:
        code = await process.wait()
    except asyncio.CancelledError:
        process.terminate()
        await process.wait()
        raise
    if code:
        raise SkillrunError(f"`{command[0]}` ended with exit code {code}", EDITOR_HINT)
    return _digest(path) != before


def _digest(path: Path) -> bytes | None:
    try:
        with open_file(path) as file:
            return hashlib.file_digest(file, "sha256").digest()
    except OSError:
        return None
