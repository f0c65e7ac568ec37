"""Makes the finished run in `docs/finished` again: `make record-demo`, or `make record-demo MODEL=NAME`.

Every recorded reply that still fits its call is used. With a model, the calls without one are sent to it and its
replies are recorded; without a model they are listed, and nothing is changed.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable
from contextlib import chdir
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from bench.recorded import rules as recorded_replies
from skillrun.cli.loading import load, load_script
from skillrun.cli.output import Output
from skillrun.cli.run_request import grant_inputs
from skillrun.models.messages import NULL_LISTENER, AttemptListener, Gateway, Reply, Request
from skillrun.models.scripted import Rule, ScriptedGateway
from skillrun.questions.responder import open_responder
from skillrun.runtime.inputs import validate_inputs
from skillrun.runtime.run import RunOptions
from skillrun.runtime.session import start_run
from skillrun.store.frontmatter import as_yaml
from skillrun.store.local.local_store import LocalStore
from skillrun.store.outcome import Outcome
from skillrun.structured_output.trailing_record import split_record
from skillrun.structured_output.values import parse_reply
from skillrun.syntax.diagnostics import SkillrunError
from skillrun.types.schemas import Shape

FINISHED: Final = Path(__file__).parents[1] / "docs" / "finished"
RUN: Final = "reminders"
MODEL: Final = "scripted:reader"


def misfit(rule: Rule, request: Request) -> str:
    """Why a recorded reply does not fit a request; empty if it fits."""
    unknown = [call.name for call in rule.calls if call.name not in {tool.name for tool in request.tools}]
    if rule.calls:
        return f"it calls {', '.join(unknown)}, which the request does not offer" if unknown else ""
    if request.schema is not None:
        _, errors = parse_reply(rule.text or "", request.schema)
    else:
        errors = (
            list(split_record(rule.text or "", Shape(request.record_schema)).errors)
            if request.record_schema is not None
            else []
        )
    return "; ".join(map(str, errors[:3]))


class RecordedGateway(ScriptedGateway):
    """Gives the recorded replies that fit; other calls go to `live`, or else get a generated reply."""

    def __init__(self, rules: Iterable[Rule], live: Gateway | None = None, model: str = "") -> None:
        super().__init__(rules)
        self.live, self.model = live, model
        self.missing: dict[str, str] = {}
        """The reason for each call without a fitting reply, by address."""

    async def send(self, request: Request, address: str, attempts: AttemptListener = NULL_LISTENER) -> Reply:
        rule = next((rule for rule in self.rules if rule.matches(address, request.model)), None)
        why = misfit(rule, request) if rule is not None else "no reply is recorded"
        if not why:
            return await super().send(request, address, attempts)
        self.missing[address] = why
        if self.live is not None:
            reply = await self.live.send(replace(request, model=self.model), address, attempts)
            return replace(reply, model=request.model)
        self.rules = [other for other in self.rules if other is not rule]
        return await super().send(request, address, attempts)


@dataclass(frozen=True)
class Recording:
    """The outcome of the run, the number of its calls, the calls without a fitting reply, and the unused replies."""

    outcome: Outcome
    calls: int
    missing: dict[str, str] = field(default_factory=dict)
    unused: list[str] = field(default_factory=list)


async def record(folder: Path, model: str = "") -> Recording:
    """Make the run in `folder`, a copy of `docs/finished` without runs. Raises SkillrunError."""
    with chdir(folder):
        out = Output()
        loaded = load("plan", out)
        script = load_script(folder / "replies.yaml", out)
        request = (folder / "request.md").read_text("utf-8").strip()
        inputs, _ = validate_inputs(loaded.program, {"request": request, "repo": "shelf", "mode": "standard"})
        live = loaded.open_gateway(None, out.note) if model else None
        name = loaded.catalogue.resolve(model, os.environ).model if model else ""
        gateway = RecordedGateway(script.rules if script is not None else (), live, name)
        session = loaded.build_session(gateway, open_responder(unattended=True))
        session.options = RunOptions(folder, MODEL, given_inputs=grant_inputs(inputs, ["repo"]))
        try:
            outcome = await start_run(session, inputs, LocalStore(folder / "runs"), RUN)
        finally:
            if live is not None:
                await live.close()
    calls = len({address for address, _ in gateway.calls} | set(gateway.missing))
    return Recording(
        outcome,
        calls,
        gateway.missing,
        [] if gateway.missing else [rule.address for rule in gateway.rules if rule.is_unused],
    )


def copy_sample(target: Path) -> None:
    """Copy what the run starts from."""
    shutil.copytree(FINISHED, target, ignore=shutil.ignore_patterns("runs"))


def replace_run(recorded: Path, finished: Path) -> None:
    """Replace the finished run and its replies with the run recorded in a copy."""
    run = finished / "runs" / RUN
    shutil.rmtree(run, ignore_errors=True)
    shutil.copytree(recorded / "runs" / RUN, run)
    script = load_script(finished / "replies.yaml", Output())
    places = {rule.address: place for place, rule in enumerate(script.rules if script is not None else ())}
    # Parallel calls end in any order: existing replies keep their positions, and new ones come last.
    replies = sorted(recorded_replies(run), key=lambda reply: places.get(reply["address"], len(places)))
    (finished / "replies.yaml").write_text(as_yaml(replies), encoding="utf-8")


def main(arguments: list[str] | None = None) -> int:
    """Make the run again. Returns 1 if it does not complete, or if replies are missing and no model is named."""
    parser = argparse.ArgumentParser(prog="python -m bench.record_demo", description=__doc__)
    parser.add_argument("--model", default="", metavar="NAME", help="calls this model for the replies that are missing")
    model = parser.parse_args(arguments).model
    with tempfile.TemporaryDirectory(prefix="skillrun-") as temporary:
        folder = Path(temporary) / "finished"
        copy_sample(folder)
        try:
            recording = asyncio.run(record(folder, model))
        except SkillrunError as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
        print(*describe(recording, model), sep="\n")
        if recording.outcome.status != "completed" or (recording.missing and not model):
            return 1
        replace_run(folder, FINISHED)
    return 0


def describe(recording: Recording, model: str) -> list[str]:
    """The lines that report the recording."""
    missing, calls = recording.missing, recording.calls
    lines = [f"{calls - len(missing)} of {calls} calls have a recorded reply that fits"]
    lines += [f"  {address}: {why}" for address, why in missing.items()]
    lines += [f"  no call takes the recorded reply for {address}" for address in recording.unused]
    if recording.outcome.status != "completed":
        return [*lines, f"The run is {recording.outcome.status}: {recording.outcome.reason}. Nothing was changed."]
    if missing and not model:
        return [*lines, "Nothing was changed. `make record-demo MODEL=NAME` calls a model for the missing replies."]
    suffix = f"; {model} gave {len(missing)} new replies" if missing else ""
    return [*lines, f"wrote docs/finished/runs/{RUN} and docs/finished/replies.yaml{suffix}"]


if __name__ == "__main__":
    sys.exit(main())
