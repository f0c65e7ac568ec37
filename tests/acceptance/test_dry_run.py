"""A dry run refuses a step whose verb executes something."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skillrun.definitions.verbs import VERBS
from tests.acceptance.conftest import Call, Make


def test_a_dry_run_refuses_a_verb_that_executes(project: Make, skillrun: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = project("greeting")
    monkeypatch.setitem(VERBS, "write", replace(VERBS["write"], effects=("executes",)))
    done = skillrun("greeting", "Ada", "--dry-run", "--model", "scripted:default")
    assert done.code != 0
    assert "executes something, which a dry run does not do" in done.out + done.err
    assert not (folder / "runs").exists()
