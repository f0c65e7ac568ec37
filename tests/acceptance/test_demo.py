"""`make demo`: a plan from recorded replies, its report, and the preview of a re-run after one edit."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.row("N1")
Call = Callable[..., Any]
SCRIPT = Path(__file__).parents[2] / "docs" / "finished" / "demo.sh"


@pytest.mark.slow  # three commands, one of them a whole run of a shipped workflow
def test_the_demo_prints_a_plan_a_report_and_the_figures_of_a_rerun(
    tmp_path: Path, skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {path: path.read_bytes() for path in SCRIPT.parent.rglob("*") if path.is_file()}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environ = {**os.environ, "PATH": path, "TMPDIR": str(tmp_path), "SKILLRUN_MODEL": "anthropic:none"}
    done = subprocess.run(["sh", str(SCRIPT)], env=environ, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("Demo with recorded replies of a capable model")
    assert len(lines) <= 41
    (folder,) = tmp_path.iterdir()
    recorded = SCRIPT.parent / "runs" / "reminders" / "plan.md"
    assert (folder / "runs/reminders/plan.md").read_text("utf-8") == recorded.read_text("utf-8")
    report = re.search(r"^wrote (.*/report\.html): ", done.stdout, re.MULTILINE)
    assert report is not None
    assert Path(report[1]).stat().st_size > 100_000
    assert not any(word in done.stdout for word in ("--open", "embedded:"))

    monkeypatch.chdir(folder)
    preview = skillrun("resume", "reminders", "--script", "replies.yaml", "--preview", "--json").json
    certain = [call for call in preview["would_ask"] if call["certain"]]
    assert certain == preview["would_ask"]
    total, tokens = len(certain) + preview["reused"], sum(call["tokens"] for call in certain)
    assert f"certain: {len(certain)} of {total} calls, {tokens:,} tokens in, about $0.00" in lines
    assert f"reused: {preview['reused']} of {total} calls" in lines
    assert len(certain) == 1
    assert preview["reused"] > 10
    assert {path: path.read_bytes() for path in SCRIPT.parent.rglob("*") if path.is_file()} == before
