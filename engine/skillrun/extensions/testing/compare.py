"""`skillrun test --compare`: two versions side by side on the cases of a workflow; the price first, then a yes.

What is asked, sampled and judged is for `cases`; how it is told is for `compared`.
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
from skillrun.cli.loading import Loaded, Script, cache_folder, load, load_script, look_for, refuse
from skillrun.cli.options import FILE
from skillrun.cli.output import Output
from skillrun.cli.preview import Expectation, LongWinded, with_tools
from skillrun.cli.project_folder import from_here, project_here
from skillrun.cli.trust import trusted
from skillrun.extensions.testing.case_reader import CaseFile, read_case
from skillrun.extensions.testing.checking import ready_case
from skillrun.extensions.testing.comparison_report import (
    Comparison,
    Expense,
    judged_pairs,
    line_of_pair,
    line_of_sample,
    markdown_of,
    price_lines,
    table_lines,
)
from skillrun.extensions.testing.judging import JudgedPair, all_judged, check_judge
from skillrun.extensions.testing.sample_replies import Answered
from skillrun.extensions.testing.sampling import Circumstances, Paths, Sample, Scope, Side, all_sampled, walked
from skillrun.extensions.testing.versions import other_version
from skillrun.library.library import Library
from skillrun.models.messages import Gateway
from skillrun.questions.responder import has_terminal
from skillrun.runtime.usage_totals import Spent
from skillrun.store.frontmatter import as_yaml
from skillrun.store.journal import Journal
from skillrun.store.local.local_run import RunFolder
from skillrun.store.local.local_store import RunFolders
from skillrun.store.memory import MemoryJournal
from skillrun.syntax.diagnostics import Problems, UsageError

FOLDER: Final = ".compared"
MODEL: Final = "SKILLRUN_MODEL"  # read for a comparison only: without one, `--model` is refused
NOW: Final = "working tree"
SAMPLES: Final = 3
ASKED_NOTHING: Final = "Nothing was asked."


@dataclass(frozen=True)
class Comparing:
    """What was typed."""

    workflow: str
    other: str
    samples: int
    scope: Scope
    judge: str
    model: str
    script: Path | None
    yes: bool
    trust_project: bool
    runs: Path


def compared_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of a comparison."""
    options = (
        click.option(
            "--compare",
            "other",
            default="",
            metavar="VERSION",
            help="Compare the project's files with another version on a real model: a git revision, a folder, or "
            "`shipped` for the built-in files. Prints the price before it starts.",
        ),
        click.option(
            "--samples", type=click.IntRange(1, 100), default=None, metavar="N", help="Samples per case. Default: 3."
        ),
        click.option("--phase", default="", metavar="PHASE", help="Compare the calls of this phase."),
        click.option("--step", default="", metavar="STEP", help="Compare the calls of this step."),
        click.option("--whole", is_flag=True, help="Compare whole runs, in which every call is made."),
        click.option(
            "--judge",
            default="",
            metavar="WORKFLOW",
            help="Have a workflow score each pair blind, for example the built-in `judge-pair`.",
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


def comparing(workflow: str, chosen: Mapping[str, Any]) -> Comparing | None:
    """What was typed; None where nothing is compared. Raises UsageError for options that do not go together."""
    scope = Scope(chosen["whole"], chosen["phase"], chosen["step"])
    own = ("samples", "phase", "step", "whole", "judge", "model", "script", "yes", "trust_project")
    if not chosen["other"]:
        for name in own:
            if chosen[name]:
                flag = f"--{name.replace('_', '-')}"
                raise UsageError(f"`{flag}` is for a comparison", f"add `--compare VERSION`, or leave `{flag}` out")
        return None
    if chosen["recorded"] or chosen["report"]:
        raise UsageError("`--compare` goes with neither `--record` nor `--junit`", "type one of them")
    if not workflow:
        raise UsageError("`--compare` takes one workflow", f"`skillrun test WORKFLOW --compare {chosen['other']}`")
    if scope.whole and (scope.phase or scope.step):
        raise UsageError("`--whole` is every phase and step", "leave `--whole` out, or `--phase` and `--step`")
    if scope.step and not scope.phase:
        raise UsageError("`--step` is a step of a phase", f"add `--phase PHASE` to `--step {scope.step}`")
    values = {name: chosen[name] for name in own if name not in ("phase", "step", "whole", "samples")}
    values["model"] = chosen["model"] or os.environ.get(MODEL, "")
    count = chosen["samples"] or SAMPLES
    return Comparing(workflow, chosen["other"], count, scope, runs=chosen["runs"], **values)


def compare(typed: Comparing, library: Library, files: Sequence[CaseFile], out: Output) -> int:
    """Say what a comparison costs, have a yes, ask, and say what came of it; the exit code."""
    script = load_script(typed.script, out)
    loaded = load(typed.workflow, out, library)
    judge = _judge(typed.judge, library, out) if typed.judge else None
    loaded = _checked_models(typed, loaded, script, out)
    with other_version(typed.other, library, project_here()) as older:
        if older.locate(f"workflows/{typed.workflow}.md") is None:
            raise UsageError(f"`{typed.other}` has no workflow `{typed.workflow}`", "name another version")
        before = load(typed.workflow, out, older).program
        sides = (_side(typed.other, before, files, out), _side(NOW, loaded.program, files, out))
        work = _Work(typed, loaded, sides, judge, script, out)
        return work.done()


def _judge(name: str, library: Library, out: Output) -> Program:
    look_for(name, library)
    program = load(name, out, library).program
    check_judge(program)
    return program


def _checked_models(typed: Comparing, loaded: Loaded, script: Script | None, out: Output) -> Loaded:
    """The workflow, with the user's trust where its models need it."""
    loaded.check_models(typed.model, {}, keys=script is None)
    if script is not None:
        return loaded
    used = loaded.resolved(typed.model)
    return trusted(loaded, used, out, unattended=typed.yes, given=typed.trust_project)


def _side(name: str, program: Program, files: Sequence[CaseFile], out: Output) -> Side:
    """A version with its cases; ends the command where one of them is broken, or does not fit this version."""
    problems, project = Problems(), project_here().resolve()
    cases = {}
    for file in files:
        document = file.document(problems, project)
        case = read_case(file, document, problems, project) if document is not None else None
        ready = ready_case(case, program, project, problems) if case is not None else None
        if ready is not None:
            cases[file.name] = ready
    if problems.errors:
        out.note(f"the cases do not fit the version `{name}`:")
    refuse([problem for problem in problems if problem.severity == "error"], out, ASKED_NOTHING, code=2)
    return Side(name, program, cases)


@dataclass
class _Work:
    """A comparison that is ready to be made."""

    typed: Comparing
    loaded: Loaded
    sides: tuple[Side, Side]
    judge: Program | None
    script: Script | None
    out: Output

    def done(self) -> int:
        out = self.out
        paths, comparison, expense = asyncio.run(self._expected())
        if not any(paths.values()) and not self.typed.scope.whole:
            return self._nothing_differs()
        for line in price_lines(comparison, expense):
            out.line(line)
        if expense.calls and not self._agreed():
            return self._refused(expense)
        place = self.typed.runs / FOLDER
        with RunFolders(place).new(self.typed.workflow, shared=False) as folder:
            with folder.lease.hold(), closing(folder.new_journal()) as journal:
                try:
                    comparison = asyncio.run(self._made(paths, journal))
                except KeyboardInterrupt:
                    out.note("what was answered is on record: the same command goes on, and asks it of nobody again")
                    raise
            files = _keep(folder.path, comparison)
        for line in table_lines(comparison):
            out.line(line)
        out.line(f"kept in {from_here(files[0])}")
        out.data({**comparison.data(), "files": [str(file) for file in files]})
        return 0 if any(sample.is_whole for sample in comparison.samples) else 1

    def _nothing_differs(self) -> int:
        scope, out = self.typed.scope, self.out
        if scope.phase:
            named = f"{scope.phase} {scope.step}".strip()
            raise UsageError(f"no call of these cases is in `{named}`", "`skillrun render WORKFLOW PHASE` shows them")
        out.line(f"{self.typed.other} and the {NOW} send the same prompts in these cases: there is nothing to compare")
        out.line("`--phase PHASE` compares the calls of a phase all the same, `--whole` whole runs")
        out.data({"status": "same", "calls": 0})
        return 0

    def _agreed(self) -> bool:
        if self.typed.yes or not self._can_ask:
            return self.typed.yes
        return click.confirm("Ask this?", default=False, err=True)

    @property
    def _can_ask(self) -> bool:
        return has_terminal() and not self.out.json

    def _refused(self, expense: Expense) -> int:
        """1 where somebody has said no, 2 where nobody could be asked."""
        self.out.data({"status": "refused", **expense.data()})
        if self._can_ask:
            self.out.line(ASKED_NOTHING)
            return 1
        self.out.note("error: nobody is there to say yes, and nothing was asked")
        self.out.note("hint: `--yes` says it, once you have seen the price")
        return 2

    def _circumstances(self, answered: Answered) -> Circumstances:
        cache = cache_folder() if self.script is None else None
        return Circumstances(self.loaded.catalogue, os.environ, answered, self.typed.model, cache)

    async def _expected(self) -> tuple[dict[str, Paths], Comparison, Expense]:
        """Which calls are compared, and what they would use, but for those that are on record."""
        expected = Expectation.of(self.loaded.program)
        stand_in = LongWinded(expected, (), price=self.loaded.catalogue.price)
        answered = Answered(self._known(), stand_in, keeps=False)
        circumstances = self._circumstances(answered)
        paths: dict[str, Paths] = {}
        for case in self.sides[0].cases:
            both = [await walked(side, case, circumstances) for side in self.sides]
            paths[case] = self.typed.scope.paths(*both)
        if not self.typed.scope.whole:
            paths = {case: several for case, several in paths.items() if several}
        samples = await self._sampled(paths, circumstances, lambda _sample: None)
        calls = len(answered.asked)
        judged = await self._judged(samples, circumstances, lambda _pair: None)
        spent = Spent()
        for address, request, reply in answered.asked:
            spent += Spent(1, reply.usage, reply.price)
            if request.tools:
                spent += with_tools(self.loaded.catalogue, request, expected.at(address))
        places = self.loaded.catalogue.places({request.model for _, request, _ in answered.asked})
        models = sorted({request.model for _, request, _ in answered.asked})
        unreplied = {case: first for case, several in paths.items() if (first := self._unreplied(case, several))}
        expense = Expense(spent, len(answered.asked) - calls, answered.known, models, places, unreplied)
        return paths, self._comparison(paths, samples, judged), expense

    def _unreplied(self, case: str, paths: Paths) -> str:
        """The first of several calls that differ, where the case has no reply for it; none where calls were chosen."""
        several = list(paths)
        if len(several) < 2 or self.typed.scope.whole or self.typed.scope.phase:
            return ""
        patterns = [reply.rule.address for reply in self.sides[1].cases[case].case.replies]
        return "" if any(fnmatchcase(f"{several[0]}/1.1", pattern) for pattern in patterns) else several[0]

    def _known(self) -> Journal:
        """What comparisons of this workflow have on record."""
        place = self.typed.runs / FOLDER / self.typed.workflow
        if not place.is_dir():
            return MemoryJournal()
        with RunFolder(place) as folder:
            return folder.journal_to_read() if folder.has_journal else MemoryJournal()

    async def _made(self, paths: dict[str, Paths], journal: Journal) -> Comparison:
        gateway: Gateway = self.loaded.gateway(self.script, self.out.note)
        circumstances = self._circumstances(Answered(journal, gateway))
        try:
            samples = await self._sampled(paths, circumstances, self._told)
            judged = await self._judged(samples, circumstances, lambda each: self.out.line(line_of_pair(each)))
        finally:
            await gateway.close()
        return self._comparison(paths, samples, judged)

    def _told(self, sample: Sample) -> None:
        if sample.status != "interrupted":
            self.out.line(line_of_sample(sample))

    async def _sampled(
        self, paths: dict[str, Paths], circumstances: Circumstances, told: Callable[[Sample], None]
    ) -> list[Sample]:
        whole = self.typed.scope.whole
        return await all_sampled(self.sides, paths, self.typed.samples, circumstances, told, whole=whole)

    async def _judged(
        self, samples: Sequence[Sample], circumstances: Circumstances, told: Callable[[JudgedPair], None]
    ) -> list[JudgedPair]:
        """The pairs that are worth it, scored."""
        if self.judge is None:
            return []
        by_place = {(sample.side, sample.case, sample.number): sample for sample in samples}
        before, after = self.sides
        pairs = [
            (sample, by_place[after.name, case, number])
            for (side, case, number), sample in by_place.items()
            if side == before.name
        ]
        worth = judged_pairs(pairs, is_walked=not circumstances.answered.keeps)
        return await all_judged(self.judge, worth, self._task, circumstances, told)

    def _task(self, case: str) -> str:
        """What a case asks for, as data: the judge's own files say what to make of it."""
        ready, workflow = self.sides[1].cases[case], self.loaded.program.workflow
        given = {name: value for name, value in ready.inputs.items() if name in ready.case.input_names}
        task: dict[str, Any] = {"workflow": workflow.description, "inputs": given}
        if self.typed.scope.phase:
            task["part"] = f"{self.typed.scope.phase} {self.typed.scope.step}".strip()
        return as_yaml(task)

    def _comparison(
        self, paths: Mapping[str, Paths], samples: Sequence[Sample], judged: Sequence[JudgedPair]
    ) -> Comparison:
        names = (self.sides[0].name, self.sides[1].name)
        return Comparison(
            self.typed.workflow, names, self.typed.judge, self.typed.samples, dict(paths), samples, judged
        )


def _keep(folder: Path, comparison: Comparison) -> tuple[Path, Path]:
    """Write the comparison beside the earlier ones, to be read and as data."""
    import json

    number = next(n for n in range(1, 10**6) if not any((folder / f"{n}{end}").exists() for end in (".md", ".json")))
    files = folder / f"{number}.md", folder / f"{number}.json"
    texts = markdown_of(comparison), json.dumps(comparison.data(), indent=2, ensure_ascii=False) + "\n"
    for file, text in zip(files, texts, strict=True):
        file.write_text(text, encoding="utf-8", errors="replace")
    return files
