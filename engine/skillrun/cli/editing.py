"""Opens a file in the user's editor, in this terminal."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
from pathlib import Path
from typing import Final

from skillrun.syntax.diagnostics import SkillrunError

DEFAULT_EDITORS: Final = ("sensible-editor", "nano", "vim", "vi")
EDITOR_HINT: Final = "set `EDITOR`, as in `export EDITOR=nano`"


async def edit_file(path: Path) -> bool:
    """Open a file in the editor, and return whether the user changed it. Raises SkillrunError."""
    before = _content(path)
    command = [*_editor_command(), str(path)]
    try:
        process = await asyncio.create_subprocess_exec(*command)
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
    return _content(path) != before


def _editor_command() -> list[str]:
    """Return the command in `$VISUAL` or `$EDITOR`, or the first default editor that is installed.

    Raises SkillrunError if there is none.
    """
    setting = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if setting:
        try:
            command = shlex.split(setting)
        except ValueError:
            command = []
        if command:
            return command
        raise SkillrunError(f"`{setting}` is not a valid command", EDITOR_HINT)
    editor = next((name for name in DEFAULT_EDITORS if shutil.which(name)), None)
    if editor is None:
        raise SkillrunError("no editor is installed", EDITOR_HINT)
    return [editor]


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None
