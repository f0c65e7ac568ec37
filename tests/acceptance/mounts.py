"""Simulates file systems that set the owner or mode of files themselves, by patching `os.stat`."""

from __future__ import annotations

import os
import stat
from typing import Any

import pytest


def simulate_mount(monkeypatch: pytest.MonkeyPatch, *, owner: int | None = None, mode: int | None = None) -> None:
    """Give every file and folder this owner and mode, whatever was requested."""

    def replace_fields(status: os.stat_result) -> os.stat_result:
        reduced: Any = status.__reduce__()
        values, extra = reduced[1]
        fields = list(values)
        if mode is not None:
            fields[0] = stat.S_IFMT(fields[0]) | mode
        if owner is not None:
            fields[4] = owner
        return os.stat_result(fields, extra)

    for name in ("stat", "lstat", "fstat"):
        real = getattr(os, name)

        def patched(*arguments: Any, real: Any = real, **options: Any) -> os.stat_result:
            return replace_fields(real(*arguments, **options))

        monkeypatch.setattr(os, name, patched)
