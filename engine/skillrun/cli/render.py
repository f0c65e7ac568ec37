"""`skillrun render`: prints a prompt from a dry run, or from the journal of a run."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import click

from skillrun.cli import completion, options
from skillrun.cli.call_view import CallSelector, matches_member, prompt_lines, select_calls, titled_blocks
from skillrun.cli.formatting import count_noun, format_table, reason_suffix
from skillrun.cli.loading import load
from skillrun.cli.options import current_project
from skillrun.cli.output import Output, make_safe
from skillrun.cli.preview import preview_run
from skillrun.cli.run_request import grant_inputs
from skillrun.definitions.definitions import strip_markers
from skillrun.models.messages import Request
from skillrun.runtime.inputs import validate_inputs
from skillrun.scoring.compaction import estimate_tokens
from skillrun.store.run_view import RunView
from skillrun.store.stored_run import StoredRun
from skillrun.syntax.diagnostics import SkillrunError, UsageError, allowed_hint, did_you_mean

HELP: Final = """Print a prompt of PHASE exactly as it would be sent. Results of earlier phases are placeholders.

With --run, print a prompt that the run sent: `skillrun render --run RUN PHASE [STEP] [MEMBER]`. STEP may be the
address of a call."""


@click.command(help=HELP)
@click.argument("workflow", shell_complete=completion.workflows_or_phases)
@click.argument("phase", default="", shell_complete=completion.phases)
@click.argument("step", default="")
@click.argument("member", default="")
@click.option("-i", "--input", "given", multiple=True, metavar="NAME=VALUE", help="Set an input of the workflow.")
@options.model
@click.option(
    "--run",
    metavar="RUN",
    default="",
    help="Print a prompt of this run. Leave out WORKFLOW.",
    shell_complete=completion.runs,
)
@options.version
@options.runs_folder
@options.as_json
def render(workflow: str, phase: str, step: str, member: str, **options_given: Any) -> int:
    out, run, version = options_given["out"], options_given["run"], options_given["version"] or 0
    given = options_given["given"]
    if run:
        if given or member:
            what = "`-i` cannot be combined with `--run`" if given else f"unexpected argument `{member}`"
            raise UsageError(what, f"`skillrun render --run {run} PHASE [STEP] [MEMBER]`")
        stored = options.open_run(run, options_given["runs"])
        return _render_recorded_prompt(stored, CallSelector(workflow, phase, step, version), out)
    if version:
        raise UsageError("`--version` requires `--run`", "`skillrun render --run RUN PHASE STEP`")
    return _render_previewed_prompt(workflow, CallSelector(phase, step, member), given, options_given["model"], out)


def _render_recorded_prompt(run: StoredRun, selector: CallSelector, out: Output) -> int:
    """Print the recorded prompt of the first call and turn that match, and return the exit code."""
    calls = RunView(run).calls
    for text in calls.notes:
        out.note(f"warning: {text}")
    turns = [(each, turn) for each in select_calls(calls, selector) for turn in each.turns]
    number = selector.turn
    chosen = [(each, turn) for each, turn in turns if number in (0, turn.number)]
    if not chosen:
        last = turns[-1][1].number
        raise UsageError(f"there is no turn {number} at `{selector}`", f"the last turn is {last}")
    (conversation, turn), others = chosen[0], [*chosen[1:], *(each for each in turns if each not in chosen)]
    record = {"fingerprint": turn.fingerprint, "is_exact": turn.is_exact, "version": conversation.version}
    record |= {"versions": conversation.versions, "round": turn.round}
    _print_request(turn.address, turn.request, record, out)
    if not turn.is_exact:
        out.note("warning: the fingerprint does not match: this text was changed after it was recorded")
    texts = [block.text for _, blocks in titled_blocks(turn.request) for _, block in blocks]
    if not out.json and any(make_safe(text) != text for text in texts):
        out.note(
            "the prompt has control or invisible characters or commands for CI runners, which are not shown as they "
            "are; `--json` prints all characters"
        )
    for _, other in others:
        out.note(f"there is also {other.address}")
    if not selector.version and conversation.versions > 1:
        out.note(
            f"{count_noun(conversation.versions - 1, 'earlier prompt')} at this address: `--version 1` is the first"
        )
    return 0


def _render_previewed_prompt(
    workflow: str, selector: CallSelector, given: tuple[str, ...], model: str, out: Output
) -> int:
    """Print a prompt of a dry run; return the exit code."""
    loaded = load(workflow, out)
    phases = loaded.program.workflow.phases
    phase, step, member = selector.phase, selector.step, selector.member
    if phase not in phases:
        what = f"`{workflow}` has no phase `{phase}`" if phase else "a phase is required"
        raise UsageError(what, did_you_mean(phase, phases) or allowed_hint(phases))
    fields = (field for field in loaded.program.workflow.inputs if field.required and field.item.word == "string")
    values: dict[str, Any] = {field.name: f"(the {field.name})" for field in fields}
    for pair in given:
        name, equals, value = pair.partition("=")
        if not equals:
            raise UsageError(f"`{pair}` is not a valid input", "use `-i NAME=VALUE`")
        values[name] = value
    values = options.resolve_path_inputs(loaded.program.workflow, values)
    inputs, _ = validate_inputs(loaded.program, values, current_project())
    preview = asyncio.run(preview_run(loaded, inputs, model, given_inputs=grant_inputs(inputs, values)))
    requests = {address: request for address, request in preview.requests if address.startswith(f"{workflow}/{phase}/")}
    addresses = [
        address
        for address in requests
        if (not step or any(step in (segment, strip_markers(segment)) for segment in address.split("/")))
        and any(matches_member(strip_markers(segment), member) for segment in address.split("/")[2:-1])
    ]
    if not requests:
        why = f"{preview.outcome.status}{reason_suffix(preview.outcome.reason)}"
        raise SkillrunError(
            f"the dry run sends no prompt in `{phase}` ({why})", "try other inputs, such as `-i mode=…`"
        )
    if not addresses:
        raise SkillrunError(f"`{phase}` has no prompt at `{step}/{member}`".replace("/`", "`"), allowed_hint(requests))
    _print_request(addresses[0], requests[addresses[0]], {}, out)
    for other in addresses[1:]:
        out.note(f"there is also {other}")
    return 0


def _print_request(address: str, request: Request, record: dict[str, Any], out: Output) -> None:
    """Print a request with the size of its parts, or as JSON with `record`."""
    out.data({"address": address, **request.to_dict(), **record})
    if out.json:
        return
    out.line(f"{address} · {request.model} · reply limit {request.max_tokens:,} tokens")
    blocks = [block for _, titled in titled_blocks(request) for _, block in titled if block.part]
    rows = [(block.part, f"{estimate_tokens(block.text):,}") for block in blocks]
    out.lines(format_table(("part", "tokens"), rows, right=(1,)))
    for text in prompt_lines(request):
        out.text(text)
