"""`skillrun test --compare`: runs a workflow's cases in two versions and compares the results.

The user confirms the price first.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

import click

from skillrun.checker.program import Program
from skillrun.cli.loading import (
    LoadedWorkflow,
    Script,
    cache_folder,
    exit_on_errors,
    load,
    load_script,
    require_workflow,
)
from skillrun.cli.options import FILE, current_project, relative_to_cwd
from skillrun.cli.output import Output
from skillrun.cli.preview import ExpectedSizes, PaddedScriptedGateway, tool_turn_usage
from skillrun.cli.trust import require_trust
from skillrun.extensions.testing.case_reader import CaseFile, read_case
from skillrun.extensions.testing.checking import prepare_case
from skillrun.extensions.testing.comparison_report import (
    Comparison,
    ComparisonCost,
    format_judged_pair,
    format_sample,
    pairs_to_judge,
    price_lines,
    render_markdown,
    table_lines,
)
from skillrun.extensions.testing.judging import JudgedPair, check_judge, judge_all_pairs
from skillrun.extensions.testing.sample_replies import SampleReplies
from skillrun.extensions.testing.sampling import (
    ComparisonScope,
    ComparisonSide,
    ConversationPaths,
    Sample,
    SampleContext,
    collect_requests,
    run_samples,
)
from skillrun.extensions.testing.versions import open_other_version
from skillrun.library.library import Library
from skillrun.models.messages import Gateway
from skillrun.questions.responder import has_terminal
from skillrun.runtime.phase_record import UsageTotals
from skillrun.store.frontmatter import as_yaml
from skillrun.store.journal import Journal
from skillrun.store.local.local_run import LocalRun
from skillrun.store.local.local_store import LocalStore
from skillrun.store.memory import MemoryJournal
from skillrun.syntax.diagnostics import Problems, UsageError

COMPARISONS_FOLDER: Final = ".compared"
MODEL_VARIABLE: Final = "SKILLRUN_MODEL"  # read for comparisons only, since `--model` requires `--compare`
WORKING_TREE: Final = "working tree"
SAMPLES: Final = 3
NO_CALLS_MADE: Final = "No calls were made."


@dataclass(frozen=True)
class CompareOptions:
    """The options of a comparison, as given on the command line."""

    workflow: str
    other: str
    samples: int
    scope: ComparisonScope
    judge: str
    model: str
    script: Path | None
    yes: bool
    trust_project: bool
    runs: Path


def compare_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a comparison to a command."""
    options = (
        click.option(
            "--compare",
            "other",
            default="",
            metavar="VERSION",
            help="Compare the project's files with VERSION on a real model. VERSION is a git revision, a folder, or "
            "`shipped` (the built-in files). Prints the price before it starts.",
        ),
        click.option(
            "--samples", type=click.IntRange(1, 100), default=None, metavar="N", help="Samples per case. Default: 3."
        ),
        click.option("--phase", default="", metavar="PHASE", help="Compare the calls of this phase."),
        click.option("--step", default="", metavar="STEP", help="Compare the calls of this step."),
        click.option("--whole", is_flag=True, help="Compare whole runs: a real model replies to every call."),
        click.option(
            "--judge",
            default="",
            metavar="WORKFLOW",
            help="Score each pair of results with WORKFLOW, such as the built-in `judge-pair`. The judge does not see "
            "which version a result comes from.",
        ),
        click.option(
            "--model",
            default="",
            metavar="NAME",
            help="Use this model for every call. Default: SKILLRUN_MODEL.",
        ),
        click.option(
            "--script",
            type=FILE,
            metavar="FILE",
            help="Use the replies in this file instead of calling a model, for tests.",
        ),
        click.option("--yes", is_flag=True, help="Start without asking for confirmation."),
        click.option("--trust-project", is_flag=True, help="Trust this project's provider addresses."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def parse_compare_options(workflow: str, chosen: Mapping[str, Any]) -> CompareOptions | None:
    """Return the options of a comparison; None if `--compare` is not given. Raises UsageError if options conflict."""
    scope = ComparisonScope(chosen["whole"], chosen["phase"], chosen["step"])
    compare_only = ("samples", "phase", "step", "whole", "judge", "model", "script", "yes", "trust_project")
    if not chosen["other"]:
        for name in compare_only:
            if chosen[name]:
                flag = f"--{name.replace('_', '-')}"
                raise UsageError(f"`{flag}` requires `--compare`", f"add `--compare VERSION`, or remove `{flag}`")
        return None
    if chosen["recorded"] or chosen["report"]:
        raise UsageError("`--compare` cannot be combined with `--record` or `--junit`", "use only one of them")
    if not workflow:
        raise UsageError("`--compare` requires a workflow", f"`skillrun test WORKFLOW --compare {chosen['other']}`")
    if scope.whole and (scope.phase or scope.step):
        raise UsageError(
            "`--whole` cannot be combined with `--phase` or `--step`", "remove `--whole`, or the other two"
        )
    if scope.step and not scope.phase:
        raise UsageError("`--step` requires `--phase`", f"add `--phase PHASE` to `--step {scope.step}`")
    values = {name: chosen[name] for name in compare_only if name not in ("phase", "step", "whole", "samples")}
    values["model"] = chosen["model"] or os.environ.get(MODEL_VARIABLE, "")
    count = chosen["samples"] or SAMPLES
    return CompareOptions(workflow, chosen["other"], count, scope, runs=chosen["runs"], **values)


def compare(options: CompareOptions, library: Library, files: Sequence[CaseFile], out: Output) -> int:
    """Print the price, ask for confirmation, run the comparison and print the results. Returns the exit code."""
    script = load_script(options.script, out)
    loaded = load(options.workflow, out, library)
    judge = _load_judge(options.judge, library, out) if options.judge else None
    loaded = _check_models(options, loaded, script, out)
    with open_other_version(options.other, library, current_project()) as older:
        if older.locate(f"workflows/{options.workflow}.md") is None:
            raise UsageError(f"`{options.other}` has no workflow `{options.workflow}`", "choose another version")
        other_program = load(options.workflow, out, older).program
        sides = (
            _load_side(options.other, other_program, files, out),
            _load_side(WORKING_TREE, loaded.program, files, out),
        )
        work = _ComparisonRun(options, loaded, sides, judge, script, out)
        return work.run()


def _load_judge(name: str, library: Library, out: Output) -> Program:
    require_workflow(name, library)
    program = load(name, out, library).program
    check_judge(program)
    return program


def _check_models(
    options: CompareOptions, loaded: LoadedWorkflow, script: Script | None, out: Output
) -> LoadedWorkflow:
    """Check that the models are available and, unless replies are scripted, that the user trusts the providers."""
    loaded.check_models(options.model, {}, keys=script is None)
    if script is not None:
        return loaded
    used = loaded.resolve_models(options.model)
    return require_trust(loaded, used, out, unattended=options.yes, is_granted=options.trust_project)


def _load_side(name: str, program: Program, files: Sequence[CaseFile], out: Output) -> ComparisonSide:
    """Return a version with its cases. If a case is invalid or does not match this version, print why and exit."""
    problems, project = Problems(), current_project().resolve()
    cases = {}
    for file in files:
        document = file.document(problems, project)
        case = read_case(file, document, problems, project) if document is not None else None
        ready = prepare_case(case, program, project, problems) if case is not None else None
        if ready is not None:
            cases[file.name] = ready
    if problems.has_errors:
        out.note(f"the cases do not match the version `{name}`:")
    exit_on_errors([problem for problem in problems if problem.severity == "error"], out, NO_CALLS_MADE, code=2)
    return ComparisonSide(name, program, cases)


@dataclass
class _ComparisonRun:
    """A comparison with its loaded versions, judge and script."""

    options: CompareOptions
    loaded: LoadedWorkflow
    sides: tuple[ComparisonSide, ComparisonSide]
    judge: Program | None
    script: Script | None
    out: Output

    def run(self) -> int:
        out = self.out
        paths, comparison, cost = asyncio.run(self._estimate())
        if not any(paths.values()) and not self.options.scope.whole:
            return self._report_no_difference()
        for line in price_lines(comparison, cost):
            out.line(line)
        if cost.calls and not self._confirm():
            return self._report_refusal(cost)
        folder_path = self.options.runs / COMPARISONS_FOLDER
        with LocalStore(folder_path).create_run(self.options.workflow, shared=False) as folder:
            with folder.lease.hold(), closing(folder.open_journal(create=True)) as journal:
                try:
                    comparison = asyncio.run(self._collect_samples(paths, journal))
                except KeyboardInterrupt:
                    out.note("completed calls are saved: run the same command to resume without repeating them")
                    raise
            files = _save_comparison(folder.path, comparison)
        for line in table_lines(comparison):
            out.line(line)
        out.line(f"saved in {relative_to_cwd(files[0])}")
        out.data({**comparison.data(), "files": [str(file) for file in files]})
        return 0 if any(sample.has_result for sample in comparison.samples) else 1

    def _report_no_difference(self) -> int:
        scope, out = self.options.scope, self.out
        if scope.phase:
            named = f"{scope.phase} {scope.step}".strip()
            raise UsageError(
                f"these cases make no calls in `{named}`", "`skillrun render WORKFLOW PHASE` shows its calls"
            )
        out.line(
            f"{self.options.other} and the {WORKING_TREE} send the same prompts in these cases: "
            "there is nothing to compare"
        )
        out.line("`--phase PHASE` compares the calls of a phase anyway, `--whole` compares whole runs")
        out.data({"status": "same", "calls": 0})
        return 0

    def _confirm(self) -> bool:
        if self.options.yes or not self._can_ask:
            return self.options.yes
        return click.confirm("Make these calls?", default=False, err=True)

    @property
    def _can_ask(self) -> bool:
        return has_terminal() and not self.out.json

    def _report_refusal(self, cost: ComparisonCost) -> int:
        """Report that no calls were made. Return exit code 1 if the user declined, 2 without a terminal."""
        self.out.data({"status": "refused", **cost.data()})
        if self._can_ask:
            self.out.line(NO_CALLS_MADE)
            return 1
        self.out.note("error: confirming the price requires a terminal; no calls were made")
        self.out.note("hint: check the price, then add `--yes`")
        return 2

    def _sampling_context(self, answered: SampleReplies) -> SampleContext:
        cache = cache_folder() if self.script is None else None
        return SampleContext(self.loaded.catalogue, os.environ, answered, self.options.model, cache)

    async def _estimate(self) -> tuple[dict[str, ConversationPaths], Comparison, ComparisonCost]:
        """Return the compared calls of each case, a simulated comparison, and the cost of the unrecorded calls."""
        expected = ExpectedSizes.from_program(self.loaded.program)
        estimating_gateway = PaddedScriptedGateway(expected, (), price=self.loaded.catalogue.price)
        answered = SampleReplies(self._recorded_journal(), estimating_gateway, saves=False)
        circumstances = self._sampling_context(answered)
        paths: dict[str, ConversationPaths] = {}
        for case in self.sides[0].cases:
            both = [await collect_requests(side, case, circumstances) for side in self.sides]
            paths[case] = self.options.scope.paths(*both)
        if not self.options.scope.whole:
            paths = {case: several for case, several in paths.items() if several}
        samples = await self._run_samples(paths, circumstances, lambda _sample: None)
        calls = len(answered.new_calls)
        judged = await self._run_judge(samples, circumstances, lambda _pair: None)
        totals = UsageTotals()
        for address, request, reply in answered.new_calls:
            totals += UsageTotals(1, reply.usage, reply.price)
            if request.tools:
                totals += tool_turn_usage(self.loaded.catalogue, request, expected.size_at(address))
        addresses = self.loaded.catalogue.provider_locations({request.model for _, request, _ in answered.new_calls})
        models = sorted({request.model for _, request, _ in answered.new_calls})
        first_unreplied = {
            case: first for case, several in paths.items() if (first := self._first_without_reply(case, several))
        }
        expense = ComparisonCost(
            totals, len(answered.new_calls) - calls, answered.recorded_calls, models, addresses, first_unreplied
        )
        return paths, self._comparison(paths, samples, judged), expense

    def _first_without_reply(self, case: str, paths: ConversationPaths) -> str:
        """Return the first of several compared calls, if the case has no reply for this call.

        Empty if it has a reply, if only one call is compared, or if the user chose the calls (`--whole`, `--phase`).
        """
        several = list(paths)
        if len(several) < 2 or self.options.scope.whole or self.options.scope.phase:
            return ""
        patterns = [reply.rule.address for reply in self.sides[1].cases[case].case.replies]
        return "" if any(fnmatchcase(f"{several[0]}/1.1", pattern) for pattern in patterns) else several[0]

    def _recorded_journal(self) -> Journal:
        """Return the journal of this workflow's earlier comparisons; an empty journal before the first."""
        folder_path = self.options.runs / COMPARISONS_FOLDER / self.options.workflow
        if not folder_path.is_dir():
            return MemoryJournal()
        with LocalRun(folder_path) as folder:
            return folder.read_journal() if folder.has_journal else MemoryJournal()

    async def _collect_samples(self, paths: dict[str, ConversationPaths], journal: Journal) -> Comparison:
        gateway: Gateway = self.loaded.open_gateway(self.script, self.out.note)
        circumstances = self._sampling_context(SampleReplies(journal, gateway))
        try:
            samples = await self._run_samples(paths, circumstances, self._print_sample)
            judged = await self._run_judge(samples, circumstances, lambda each: self.out.line(format_judged_pair(each)))
        finally:
            await gateway.close()
        return self._comparison(paths, samples, judged)

    def _print_sample(self, sample: Sample) -> None:
        if sample.status != "interrupted":
            self.out.line(format_sample(sample))

    async def _run_samples(
        self, paths: dict[str, ConversationPaths], circumstances: SampleContext, on_sample: Callable[[Sample], None]
    ) -> list[Sample]:
        whole = self.options.scope.whole
        return await run_samples(self.sides, paths, self.options.samples, circumstances, on_sample, whole=whole)

    async def _run_judge(
        self, samples: Sequence[Sample], circumstances: SampleContext, on_pair: Callable[[JudgedPair], None]
    ) -> list[JudgedPair]:
        """Let the judge score the pairs that `pairs_to_judge` selects."""
        if self.judge is None:
            return []
        by_place = {(sample.side, sample.case, sample.number): sample for sample in samples}
        before, after = self.sides
        pairs = [
            (sample, by_place[after.name, case, number])
            for (side, case, number), sample in by_place.items()
            if side == before.name
        ]
        selected_pairs = pairs_to_judge(pairs, is_estimate=not circumstances.replies.saves)
        return await judge_all_pairs(self.judge, selected_pairs, self._judge_task, circumstances, on_pair)

    def _judge_task(self, case: str) -> str:
        """Return the description of a case for the judge, as YAML: the workflow, the inputs and the compared part."""
        ready, workflow = self.sides[1].cases[case], self.loaded.program.workflow
        given = {name: value for name, value in ready.inputs.items() if name in ready.case.input_names}
        task: dict[str, Any] = {"workflow": workflow.description, "inputs": given}
        if self.options.scope.phase:
            task["part"] = f"{self.options.scope.phase} {self.options.scope.step}".strip()
        return as_yaml(task)

    def _comparison(
        self, paths: Mapping[str, ConversationPaths], samples: Sequence[Sample], judged: Sequence[JudgedPair]
    ) -> Comparison:
        names = (self.sides[0].name, self.sides[1].name)
        return Comparison(
            self.options.workflow, names, self.options.judge, self.options.samples, dict(paths), samples, judged
        )


def _save_comparison(folder: Path, comparison: Comparison) -> tuple[Path, Path]:
    """Write the comparison as markdown and as JSON, named by the next free number. Return both paths."""
    import json

    number = next(n for n in range(1, 10**6) if not any((folder / f"{n}{end}").exists() for end in (".md", ".json")))
    files = folder / f"{number}.md", folder / f"{number}.json"
    texts = render_markdown(comparison), json.dumps(comparison.data(), indent=2, ensure_ascii=False) + "\n"
    for file, text in zip(files, texts, strict=True):
        file.write_text(text, encoding="utf-8", errors="replace")
    return files
