"""A file in the person's own editor, in this terminal."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
from pathlib import Path
from typing import Final

from skillrun.syntax.diagnostics import SkillrunError

USUAL: Final = ("sensible-editor", "nano", "vim", "vi")
WAY: Final = "set `EDITOR`, as in `export EDITOR=nano`"


async def edited(path: Path) -> bool:
    """Have a file edited, until the editor ends; whether it is another one now. Raises SkillrunError."""
    before = _content(path)
    command = [*_editor(), str(path)]
    try:
        process = await asyncio.create_subprocess_exec(*command)
    except OSError as error:
        raise SkillrunError(f"`{command[0]}` cannot be started: {error.strerror}", WAY) from None
    try:
        code = await process.wait()
    except asyncio.CancelledError:
        process.terminate()
        await process.wait()
        raise
    if code:
        raise SkillrunError(f"`{command[0]}` ended with exit code {code}", WAY)
    return _content(path) != before


def _editor() -> list[str]:
    """The command of `$VISUAL` or `$EDITOR`, or else an editor that is there. Raises SkillrunError."""
    wanted = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if wanted:
        try:
            command = shlex.split(wanted)
        except ValueError:
            command = []
        if command:
            return command
        raise SkillrunError(f"`{wanted}` is no command", WAY)
    there = next((name for name in USUAL if shutil.which(name)), None)
    if there is None:
        raise SkillrunError("there is no editor", WAY)
    return [there]


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None
