"""Recording the finished run again: which recorded replies still fit the current calls."""

from __future__ import annotations

import asyncio
import re
import shutil
from pathlib import Path

import pytest

from bench import record_demo
from bench.record_demo import FINISHED, Recording, misfit
from skillrun.cli.loading import load_script
from skillrun.cli.output import Output
from skillrun.library.roots import package_library
from skillrun.models.messages import Block, Message, Request, ToolCall
from skillrun.models.scripted import Rule
from skillrun.store.outcome import Outcome

MAKEFILE = (Path(__file__).parents[2] / "Makefile").read_text("utf-8")
pytestmark = pytest.mark.row("N1")

REQUEST = Request("scripted:reader", (), (Message("user", (Block("Judge it."),)),), 1000)
SCHEMA = {"type": "object", "required": ["score"], "properties": {"score": {"type": "integer"}}}


def test_the_demo_needs_no_weights_unless_the_embedded_model_is_chosen() -> None:
    rules = re.search(r"^ifeq \(\$\(MODEL\),embedded\)\n(.*?)^else\n(.*?)^endif", MAKEFILE, re.MULTILINE | re.DOTALL)
    assert rules is not None
    embedded, recorded = rules.groups()
    assert re.match(r"demo: \.venv/\.installed-local\n.*--model embedded ", embedded, re.DOTALL)
    assert re.match(r"demo: \.venv/\.installed .*demo\.sh", recorded, re.DOTALL)
    base, local = (
        re.search(rf"^\.venv/\.installed{suffix}: .*\n\t(.*)", MAKEFILE, re.MULTILINE) for suffix in ("", "-local")
    )
    assert base is not None
    assert local is not None
    assert "local" not in base[1]
    assert "local" in local[1]


def test_a_reply_fits_the_schema_record_or_tools_of_its_call() -> None:
    structured = Request(REQUEST.model, (), REQUEST.messages, 1000, schema=SCHEMA)
    recorded = Request(REQUEST.model, (), REQUEST.messages, 1000, record_schema=SCHEMA)
    assert misfit(Rule(text="Fine."), REQUEST) == ""
    assert misfit(Rule(text='{"score": 3}'), structured) == ""
    assert misfit(Rule(text='{"level": 3}'), structured) == "score: `score` is missing"
    assert misfit(Rule(text='Fine.\n\n```record\n{"score": 3}\n```'), recorded) == ""
    assert "does not end with a `record` block" in misfit(Rule(text="Fine."), recorded)
    assert misfit(Rule(calls=(ToolCall("1", "Read", {}),)), REQUEST) == (
        "it calls Read, which the request does not offer"
    )


def test_missing_replies_are_listed_and_nothing_is_changed() -> None:
    recording = Recording(Outcome("completed"), 36, {"plan/validation/judged/1.1": "no reply is recorded"})
    assert record_demo.describe(recording, "") == [
        "35 of 36 calls have a recorded reply that fits",
        "  plan/validation/judged/1.1: no reply is recorded",
        "Nothing was changed. `make record-demo MODEL=NAME` calls a model for the missing replies.",
    ]


@pytest.mark.slow
def test_every_call_of_the_demo_has_a_fitting_recorded_reply(tmp_path: Path) -> None:
    record_demo.copy_sample(tmp_path / "finished")
    recording = asyncio.run(record_demo.record(tmp_path / "finished"))
    assert recording.missing == {}, "run `make record-demo`"
    assert recording.unused == []
    assert recording.outcome.status == "completed"
    shutil.copytree(FINISHED, tmp_path / "copy")
    record_demo.replace_run(tmp_path / "finished", tmp_path / "copy")
    assert (tmp_path / "copy/replies.yaml").read_text("utf-8") == (FINISHED / "replies.yaml").read_text("utf-8")


@pytest.mark.slow
def test_editing_the_output_of_a_step_makes_its_recorded_reply_unfit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sample = tmp_path / "sample"
    shutil.copytree(FINISHED, sample, ignore=shutil.ignore_patterns("runs"))
    (sample / "skills/plan").mkdir(parents=True)
    text = (package_library() / "skills/plan/completion.md").read_text("utf-8")
    assert text.count("open(array): string,") == 1
    edited = text.replace("open(array): string,", "cost: integer, in days\n      open(array): string,")
    (sample / "skills/plan/completion.md").write_text(edited, encoding="utf-8")
    monkeypatch.setattr(record_demo, "FINISHED", sample)
    before = (sample / "replies.yaml").read_bytes()
    assert record_demo.main([]) == 1
    out = capsys.readouterr().out
    assert "35 of 36 calls have a recorded reply that fits" in out
    assert "  plan/completion/first/planner/1.1: cost: `cost` is missing" in out
    assert not (sample / "runs").exists()
    assert (sample / "replies.yaml").read_bytes() == before


@pytest.mark.slow
def test_a_model_is_called_for_missing_replies_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sample = tmp_path / "sample"
    shutil.copytree(FINISHED, sample, ignore=shutil.ignore_patterns("runs"))
    script = load_script(sample / "replies.yaml", Output())
    assert script is not None
    text = (sample / "replies.yaml").read_text("utf-8")
    last = text.rindex("- address: ")
    (sample / "replies.yaml").write_text(text[:last], encoding="utf-8")
    monkeypatch.setattr(record_demo, "FINISHED", sample)
    assert record_demo.main(["--model", "scripted:other"]) == 0
    completed_script = load_script(sample / "replies.yaml", Output())
    assert completed_script is not None
    assert [rule.address for rule in completed_script.rules] == [rule.address for rule in script.rules]
    assert completed_script.rules[:-1] == script.rules[:-1]
    assert completed_script.rules[-1].text != script.rules[-1].text
