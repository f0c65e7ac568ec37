"""Stores the user's consent for a project. The consent is kept outside the project. It is valid only for exactly what
the user has seen.

This module owns the consent file. Other modules determine what needs consent and when to ask.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from skillrun.repository.paths import is_user_owned
from skillrun.syntax.diagnostics import SkillrunError
from skillrun.syntax.reading import open_file

LARGEST: Final = 100_000  # bytes; a larger file is not a consent file


def has_consent(project: Path, digest: str) -> bool:
    """Whether the user has consented to this digest in this project. A damaged file counts as no consent."""
    consent = _read_consent(_consent_path(project))
    return consent.get("project") == os.path.realpath(project) and consent.get("digest") == digest


def save_consent(project: Path, digest: str, lines: list[str]) -> Path:
    """Save a consent, which replaces the previous one. `lines` is what was shown to the user. Raises SkillrunError."""
    path = _consent_path(project)
    if not path.is_absolute():
        raise SkillrunError(f"the consent cannot be saved in {path.parent}", "set XDG_DATA_HOME to an absolute path")
    record = {"project": os.path.realpath(project), "digest": digest, "told": lines}
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.parent.chmod(0o700)
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".partial")  # the file's mode is 0600
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                json.dump(record, file, indent=2)
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise SkillrunError(f"the consent cannot be saved: {error}", "check the permissions of its folder") from None
    if not has_consent(project, digest):
        path.unlink(missing_ok=True)
        raise SkillrunError(
            f"the consent cannot be saved in {path.parent}: other users could write to it",
            "set XDG_DATA_HOME to a folder that supports file modes, or use --trust-project for one command",
        )
    return path


def revoke(project: Path) -> bool:
    """Revoke the consent for a project, and return whether there was one. Raises SkillrunError."""
    try:
        _consent_path(project).unlink()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise SkillrunError(f"the consent cannot be revoked: {error}", "check the permissions of its folder") from None
    return True


def _consent_path(project: Path) -> Path:
    from platformdirs import user_data_path

    name = hashlib.sha256(os.fsencode(os.path.realpath(project))).hexdigest()[:32]
    return user_data_path("skillrun") / "trust" / f"{name}.json"


def _read_consent(path: Path) -> dict[str, Any]:
    """Return the content of the consent file. Empty if it is damaged, or if another user may have written it."""
    if not path.is_absolute():  # a relative path would depend on the current directory
        return {}
    with suppress(OSError, ValueError, RecursionError):
        with open_file(path) as file:
            status = os.fstat(file.fileno())
            content = file.read(LARGEST + 1)
        is_untrusted = status.st_mode & 0o022 or not is_user_owned(status, path.parent)
        consent = json.loads(content) if len(content) <= LARGEST and not is_untrusted else {}
        return consent if isinstance(consent, dict) else {}
    return {}
