"""`skillrun diff`: compares the calls and artifacts of two runs, or of two versions in one run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from skillrun.cli import completion, options
from skillrun.cli.call_view import CallSelector, call_label, call_path, select_calls, truncate_lines
from skillrun.cli.differences import reply_lines
from skillrun.cli.formatting import count_noun, format_price, format_table
from skillrun.extensions.report.run_pairs import (
    ArtifactPair,
    CallPair,
    call_usage,
    pair_artifact_versions,
    pair_artifacts,
    pair_runs,
    pair_versions,
)
from skillrun.store.run_view import Conversation, RunCalls, RunView
from skillrun.store.stored_run import StoredRun
from skillrun.syntax.diagnostics import UsageError

HEADER: Final = ("call", "prompt", "tools", "reply", "tokens in", "tokens out", "price")
MAX_NAMED: Final = 3
HELP: Final = """Compare the calls and artifacts of two runs, RUN and OTHER.

Without PHASE, print a table. With PHASE, print how the prompts and replies of the phase differ. With STEP or --full,
long differences are not shortened. If a call has several prompts (after rounds, edits or `dev`), the last prompt is
compared; --version N chooses another.

With only RUN, or RUN and PHASE, compare the last two prompts of each call and the last two versions of each
artifact."""


@click.command(help=HELP)
@click.argument("run", shell_complete=completion.runs)
@click.argument("other", default="", shell_complete=completion.runs)
@click.argument("phase", default="", shell_complete=completion.run_phases)
@click.argument("step", default="")
@click.argument("member", default="")
@click.option("--full", is_flag=True, help="Print long differences without shortening them.")
@options.version
@options.runs_folder
@options.as_json
def diff(run: str, other: str, phase: str, step: str, member: str, **options_given: Any) -> int:
    out, runs = options_given["out"], options_given["runs"]
    names = [name for name in (other, phase, step, member) if name]
    difference = _compare_runs(run, names, runs, options_given["version"] or 0)
    for text in difference.notes:
        out.note(f"warning: {text}")
    out.data(difference.data())
    full = options_given["full"] or bool(difference.selector.step)
    if not out.json:
        out.lines(difference.lines(full=full))
    return 0


@dataclass(frozen=True)
class RunDifference:
    """The paired calls and artifacts of two runs, or of two versions in one run. `sides` contains their names."""

    sides: tuple[str, str]
    command_arguments: str
    selector: CallSelector
    pairs: Sequence[CallPair]
    artifacts: Sequence[ArtifactPair]
    notes: Sequence[str]
    version_notes: Sequence[str] = ()
    """Notes that say which prompts are compared if calls have several prompts."""

    def data(self) -> dict[str, Any]:
        """Return all differences as JSON data, without shortening them."""
        return {
            "sides": list(self.sides),
            "calls": [_pair_data(pair) for pair in self.pairs],
            "artifacts": [
                {"name": each.name, "status": self._artifact_status(each), "difference": each.difference}
                for each in self.artifacts
            ],
        }

    def lines(self, *, full: bool) -> Iterator[str]:
        """Yield the lines of the output: all differences, and the number of identical calls and artifacts."""
        differing = [pair for pair in self.pairs if not pair.is_same]
        if differing:
            yield from format_table(HEADER, [self._row(pair) for pair in differing], right=(4, 5, 6))
        same = len(self.pairs) - len(differing)
        if same or not (self.pairs or self.artifacts):
            yield f"{count_noun(same, 'call')} {'is' if same == 1 else 'are'} the same"
        yield from self.version_notes
        others = [each for each in self.artifacts if not each.is_same]
        if self.artifacts:
            yield from [""] if self.pairs else ()
            yield "artifacts:"
            yield from (f"  {each.name}: {self._artifact_status(each)}" for each in others)
            if len(others) < len(self.artifacts):
                yield f"  {len(self.artifacts) - len(others)} the same"
        if self.selector.phase or full:
            for pair in differing:
                yield from self._pair_lines(pair, full=full)
            for each in others:
                if each.difference and not self.selector.step:
                    yield ""
                    yield f"{each.name}:"
                    yield from truncate_lines(each.difference, full=full)
        elif differing:
            yield ""
            yield f"to see a phase's differences: `skillrun diff {self.command_arguments} {differing[0].either.phase}`"
        elif others:
            yield ""
            yield f"to see the differences: `skillrun diff {self.command_arguments} --full`"

    def _only_in(self, *, in_before: bool) -> str:
        return f"only in {self.sides[0] if in_before else self.sides[1]}"

    def _artifact_status(self, pair: ArtifactPair) -> str:
        if pair.before is None or pair.after is None:
            return self._only_in(in_before=pair.before is not None)
        if pair.is_same:
            return "same"
        more, less = (sum(line.startswith(sign) for line in pair.difference) for sign in "+-")
        return f"+{more} -{less} lines" if more or less else "different line endings"

    def _row(self, pair: CallPair) -> list[str]:
        name = pair.either.path if not self.selector.phase else call_label(pair.either)
        if pair.is_unmatched:
            outcome_cells = [self._only_in(in_before=pair.before is not None), "", ""]
        else:
            outcome_cells = [pair.prompt, pair.tools, pair.reply]
        (used_in, used_out, price), (then_in, then_out, then_price) = call_usage(pair.before), call_usage(pair.after)
        flow = [
            (f"{used_in:,}", f"{then_in:,}"),
            (f"{used_out:,}", f"{then_out:,}"),
            (format_price(price), format_price(then_price)),
        ]
        changes = (after if before == after else f"{before} → {after}" for before, after in flow)
        return [name, *outcome_cells, *changes]

    def _pair_lines(self, pair: CallPair, *, full: bool) -> Iterator[str]:
        """Yield the differences of a call. A call that only one run made has none."""
        if pair.is_unmatched:
            return
        yield ""
        yield "─" * 80
        before, after = _side_labels(pair, self.sides)
        yield f"{pair.either.phase}: {call_path(pair.either)} (- {before}, + {after})"
        for title, difference in (("prompt", pair.prompt_difference), ("tools", pair.tools_difference)):
            if difference:
                yield f"{title}:"
                yield from truncate_lines(difference, full=full)
        if not pair.prompt_difference:
            yield "prompt: same"
        if pair.reply == "same":
            yield "reply: same"
        else:
            yield "reply:"
            yield from truncate_lines(reply_lines(pair.reply_fields, pair.reply_difference, full=full), full=full)


def _compare_runs(run: str, names: list[str], runs: Path, version: int) -> RunDifference:
    """Resolve the arguments after RUN, and compare the runs or versions. Raises UsageError."""
    first = RunView(options.open_run(run, runs))
    before = first.calls
    second: StoredRun | None = first.run
    if names:
        try:
            second = options.open_run(names[0], runs)
        except UsageError:
            if not set(names[0].split("/")[:2]) & set(before.phases):
                raise
            second = None  # the first name is a phase of the run
    if second is None or second.location == first.run.location:
        selector = _parse_selector(names if second is None else names[1:])
        return _compare_versions(first, run, selector, version)
    other = RunView(second)
    after, selector = other.calls, _parse_selector(names[1:])
    calls_by_run = [_select_latest_calls(calls, selector, version) for calls in (before, after)]
    if selector.phase and not any(calls_by_run):
        select_calls(after, selector)  # raises an error that lists the available calls
    notes = [*before.notes, *after.notes]
    workflows = {each.address.partition("/")[0] for calls in (before, after) for each in calls.conversations}
    if len(workflows) > 1:
        notes.append(
            f"the runs are of different workflows ({', '.join(sorted(workflows))}): calls are paired by phase and step"
        )
    with_artifacts = not (selector.step or version)  # steps have no artifacts, and `--version` counts prompts
    artifacts = pair_artifacts((first, other), selector.phase.partition("/")[0]) if with_artifacts else []
    sides = (before.name, after.name) if before.name != after.name else (run, names[0])
    pairs = pair_runs(*calls_by_run)
    command_arguments = f"{run} {names[0]}"
    return RunDifference(
        sides,
        command_arguments,
        selector,
        pairs,
        artifacts,
        notes,
        _version_notes(pairs, sides, " ".join([run, *names]), version),
    )


def _version_notes(
    pairs: Sequence[CallPair], sides: tuple[str, str], command_arguments: str, version: int
) -> list[str]:
    """Return notes about calls with several prompts: which prompt is compared, and how to choose another."""
    several = [pair for pair in pairs if not pair.is_unmatched and _max_versions(pair) > 1]
    if not several:
        return []
    named = [f"{pair.either.path} ({', '.join(_side_labels(pair, sides))})" for pair in several[:MAX_NAMED]]
    more = f" and {len(several) - MAX_NAMED} more" if len(several) > MAX_NAMED else ""
    which = f"version {version} (or the last, if there are fewer)" if version else "the last prompt"
    had = f"{count_noun(len(several), 'call')} had several prompts, in rounds or after edits"
    other = f"`skillrun diff {command_arguments} --version 1` compares the first prompts" if version != 1 else ""
    return [f"{had}; {which} is compared: {'; '.join(named)}{more}", *filter(None, [other])]


def _max_versions(pair: CallPair) -> int:
    return max(each.versions for each in (pair.before, pair.after) if each is not None)


def _side_labels(pair: CallPair, sides: tuple[str, str]) -> tuple[str, str]:
    """Return the names of the two sides. If the call has several prompts on a side, the version follows the name."""
    before, after = (
        f": version {each.version} of {each.versions}, round {each.first.round}"
        if each and _max_versions(pair) > 1
        else ""
        for each in (pair.before, pair.after)
    )
    return sides[0] + before, sides[1] + after


def _parse_selector(names: Sequence[str]) -> CallSelector:
    if len(names) > 3:
        raise UsageError(f"unexpected argument `{names[3]}`", "`skillrun diff RUN OTHER PHASE STEP MEMBER`")
    phase, step, member = [*names, "", "", ""][:3]
    return CallSelector(phase, step, member)


def _select_latest_calls(calls: RunCalls, selector: CallSelector, version: int = 0) -> list[Conversation]:
    """Return the selected calls, each with its last prompt or, if `version` is not 0, with prompt `version`."""
    try:
        matches = (
            select_calls(calls, selector)
            if selector.phase
            else [each for each in calls.conversations if each.is_latest]
        )
    except UsageError:
        return []
    if not version:
        return matches
    places = {(each.path, each.attempt) for each in matches}
    versions = [each for each in calls.conversations if (each.path, each.attempt) in places]
    return [each for each in versions if each.version == min(version, each.versions)]


def _compare_versions(view: RunView, command_arguments: str, selector: CallSelector, version: int) -> RunDifference:
    """Compare the last prompts and artifacts of a run with earlier versions. Raises UsageError if none exist."""
    calls = view.calls
    artifacts = pair_artifact_versions(view, selector.phase.partition("/")[0], version) if not selector.step else []
    latest = _select_latest_calls(calls, selector)
    if selector.phase and not (latest or artifacts):
        select_calls(calls, selector)  # raises an error that lists the available calls
    places = {(each.path, each.attempt) for each in latest}
    pairs = pair_versions((each for each in calls.conversations if (each.path, each.attempt) in places), version)
    if not pairs and not artifacts:
        where = f"at `{selector}` " if selector.phase else ""
        hint = f"compare with another run: `skillrun diff {command_arguments} OTHER`"
        if version and any(each.versions > 1 for each in latest):
            hint = f"there are versions 1 to {max(each.versions for each in latest)}; choose one before the last"
        raise UsageError(f"no call {where}in {calls.name} has another prompt to compare with", hint)
    sides = (f"version {version}" if version else "before", "now")
    return RunDifference(sides, command_arguments, selector, pairs, artifacts, calls.notes)


def _pair_data(pair: CallPair) -> dict[str, Any]:
    sides = {}
    for name, each in (("before", pair.before), ("after", pair.after)):
        used_in, used_out, price = call_usage(each)
        sides[name] = each and {
            "address": each.address,
            "attempt": each.attempt,
            "version": each.version,
            "round": each.first.round,
            "fingerprint": each.first.fingerprint,
            "status": each.last.status,
            "input": used_in,
            "output": used_out,
            "price": price,
        }
    fields = pair.reply_fields
    return {
        "path": pair.either.path,
        "attempt": pair.either.attempt,
        "is_same": pair.is_same,
        **sides,
        "prompt": pair.prompt,
        "tools": pair.tools,
        "reply": pair.reply,
        "prompt_difference": pair.prompt_difference,
        "tools_difference": pair.tools_difference,
        "reply_difference": pair.reply_difference,
        "reply_fields": [field._asdict() for field in fields] if fields is not None else None,
    }
