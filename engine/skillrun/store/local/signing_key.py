"""The key that seals a user's runs on this machine. It is stored in the user's data folder."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from pathlib import Path
from typing import Final

from skillrun.repository.confined_folder import PRIVATE_MODE, ConfinedFolder
from skillrun.repository.paths import is_user_owned
from skillrun.store.local.local_files import write_new
from skillrun.syntax.diagnostics import SkillrunError

KEY: Final = "seal.key"
SIZE: Final = 32  # bytes of the key
REPLACE_KEY_HINT: Final = "remove it; skillrun creates a new key"
MODES_HINT: Final = "if the file system has no file modes, set XDG_DATA_HOME to a folder on another file system"


def read_signing_key() -> bytes | None:
    """Return the user's key; None if it does not exist. Raises SkillrunError if other users could have written it."""
    try:
        with ConfinedFolder(key_folder()) as tree:
            return _read(tree)
    except (FileNotFoundError, NotADirectoryError):
        return None


def key_trouble() -> str:
    """Return the reason why the user's key cannot be used; empty if the key is usable or does not exist."""
    try:
        read_signing_key()
    except OSError as error:
        return str(error)
    except SkillrunError as error:
        return f"{error.message} ({error.next_step})"
    return ""


def ensure_signing_key() -> bytes:
    """Return the user's key, and create it if it is missing. Raises OSError if it cannot be stored."""
    key = read_signing_key()
    if key is not None:
        return key
    folder = key_folder()
    folder.mkdir(PRIVATE_MODE, parents=True, exist_ok=True)
    with ConfinedFolder(folder) as tree:
        write_new(tree, KEY, secrets.token_bytes(SIZE))  # if another process is faster, its key is used
        key = _read(tree)
    assert key is not None
    return key


def key_folder() -> Path:
    """Return the user's data folder, with links resolved."""
    from platformdirs import user_data_path

    return Path(os.path.realpath(user_data_path("skillrun")))


def _read(tree: ConfinedFolder) -> bytes | None:
    """Read the key. If its creation was interrupted, the file can have a second name in the same folder."""
    path = tree.path / KEY
    with tree.open_parent(KEY) as (folder, leaf):
        try:
            descriptor = os.open(leaf, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise SkillrunError(f"{path} is a symbolic link", REPLACE_KEY_HINT) from None
            raise
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise SkillrunError(f"{path} is not a regular file", REPLACE_KEY_HINT)
        if status.st_mode & 0o077 or not is_user_owned(status, tree.path):
            raise SkillrunError(
                f"{path} must belong to you, and only you may read it", f"{REPLACE_KEY_HINT}: rm {path}; {MODES_HINT}"
            )
        key = file.read(SIZE + 1)
    if len(key) != SIZE:
        raise SkillrunError(f"{path} is damaged", REPLACE_KEY_HINT)
    return key
