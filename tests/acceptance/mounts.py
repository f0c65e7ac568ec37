"""File systems of other machines, which set the owner or the modes of files themselves, told by what `stat` says."""

from __future__ import annotations

import os
import stat
from typing import Any

import pytest


def mounted(monkeypatch: pytest.MonkeyPatch, *, owner: int | None = None, mode: int | None = None) -> None:
    """From now on every file and folder has this owner and these modes, whatever was asked for."""

    def told(found: os.stat_result) -> os.stat_result:
        reduced: Any = found.__reduce__()
        values, named = reduced[1]
        said = list(values)
        if mode is not None:
            said[0] = stat.S_IFMT(said[0]) | mode
        if owner is not None:
            said[4] = owner
        return os.stat_result(said, named)

    for name in ("stat", "lstat", "fstat"):
        real = getattr(os, name)

        def looked(*words: Any, real: Any = real, **more: Any) -> os.stat_result:
            return told(real(*words, **more))

        monkeypatch.setattr(os, name, looked)
