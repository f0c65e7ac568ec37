"""A file in the person's own editor, in this terminal."""

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
    """Have a file edited, until the editor ends; whether it is another one now. Raises SkillrunError."""
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
    """The command of `$VISUAL` or `$EDITOR`, or else an editor that is there. Raises SkillrunError."""
    setting = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if setting:
        try:
            command = shlex.split(setting)
        except ValueError:
            command = []
        if command:
            return command
        raise SkillrunError(f"`{setting}` is no command", EDITOR_HINT)
    editor = next((name for name in DEFAULT_EDITORS if shutil.which(name)), None)
    if editor is None:
        raise SkillrunError("there is no editor", EDITOR_HINT)
    return [editor]


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None
