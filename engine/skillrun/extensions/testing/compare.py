"""`skillrun test --compare`: runs a workflow's cases in two versions and compares the results.

The user must confirm the price first.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import secrets
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import count
from pathlib import Path
from typing import Any, Final

import click

from skillrun.checker.program import Program
from skillrun.cli.formatting import format_warning
from skillrun.cli.loading import LoadedWorkflow, Script, cache_folder, exit_on_errors, load, load_script
from skillrun.cli.options import MODEL_VARIABLE, current_project, relative_to_cwd
from skillrun.cli.output import Output
from skillrun.cli.preview import ExpectedSizes, PaddedScriptedGateway, tool_turn_usage
from skillrun.cli.trust import require_trust
from skillrun.events import Event
from skillrun.extensions.testing.cases import CaseFile
from skillrun.extensions.testing.checking import load_case
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
from skillrun.extensions.testing.sampling import (
    ComparisonScope,
    ComparisonSide,
    ConversationPaths,
    Sample,
    SampleContext,
    SampleReplies,
    SealedReplies,
    collect_requests,
    run_samples,
)
from skillrun.library.library import Library
from skillrun.library.roots import FOLDERS, Root, search_path, shipped_files
from skillrun.library.settings import WORDS, load_budget
from skillrun.models.messages import Gateway
from skillrun.questions.responder import has_terminal
from skillrun.repository.confined_folder import LONGEST, NO_LINKS_HINT, ConfinedFolder
from skillrun.repository.git import READ_TIMEOUT, REPLY_TIMEOUT, CommitRefused, CommitWriter, Git, GitFailed
from skillrun.repository.gitignore import is_repository
from skillrun.repository.paths import PathRefused
from skillrun.runtime.errors import BudgetExhausted
from skillrun.runtime.phase_record import UsageTotals
from skillrun.runtime.run_budget import RunBudget
from skillrun.store.frontmatter import as_yaml
from skillrun.store.local.local_run import LocalRun
from skillrun.store.local.local_store import LocalStore
from skillrun.store.local.signing_key import ensure_signing_key
from skillrun.store.memory import MemoryJournal
from skillrun.syntax.diagnostics import Problems, SkillrunError, UsageError
from skillrun.syntax.source import MAX_PROSE

COMPARISONS_FOLDER: Final = ".compared"
WORKING_TREE: Final = "working tree"
SAMPLES: Final = 3
SHIPPED: Final = "shipped"
VERSION_HINT: Final = "a git revision such as `HEAD`, a folder such as `../before`, or `shipped`"
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
    budget: Mapping[str, float]
    runs: Path


def parse_compare_options(workflow: str, chosen: Mapping[str, Any]) -> CompareOptions | None:
    """Return the options of a comparison; None if `--compare` is not given. Raises UsageError if options conflict."""
    scope = ComparisonScope(chosen["whole"], chosen["phase"], chosen["step"])
    compare_only = ("samples", "phase", "step", "whole", "judge", "model", "script", "yes", "trust_project", "budget")
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
    # The option does not read the variable, because it requires `--compare`.
    values["model"] = chosen["model"] or os.environ.get(MODEL_VARIABLE, "")
    count = chosen["samples"] or SAMPLES
    return CompareOptions(workflow, chosen["other"], count, scope, runs=chosen["runs"], **values)


def compare(options: CompareOptions, library: Library, files: Sequence[CaseFile], out: Output) -> int:
    """Print the price, ask for confirmation, run the comparison and print the results. Returns the exit code."""
    if (comparisons := options.runs / COMPARISONS_FOLDER).is_symlink():
        raise PathRefused(f"{comparisons} is a symbolic link", NO_LINKS_HINT)
    script = load_script(options.script, out)
    loaded = load(options.workflow, out, library)
    judge = load(options.judge, out, library).program if options.judge else None
    if judge is not None:
        check_judge(judge)
    loaded.check_models(options.model, {}, keys=script is None)
    if script is None:
        used = loaded.resolve_models(options.model)
        loaded = require_trust(loaded, used, out, unattended=options.yes, is_granted=options.trust_project)
    with _open_other_version(options.other, library, current_project()) as older:
        if older.locate(f"workflows/{options.workflow}.md") is None:
            raise UsageError(f"`{options.other}` has no workflow `{options.workflow}`", "choose another version")
        other_program = load(options.workflow, out, older).program
        sides = (
            _load_side(options.other, other_program, files, out),
            _load_side(WORKING_TREE, loaded.program, files, out),
        )
        return _ComparisonRun(options, loaded, sides, judge, script, out).run()


def _load_side(name: str, program: Program, files: Sequence[CaseFile], out: Output) -> ComparisonSide:
    """Return a version with its cases. If a case is invalid or does not match this version, print why and exit."""
    problems, project = Problems(), Path(os.path.realpath(current_project()))
    cases = {}
    for file in files:
        ready = load_case(file, program, project, problems)
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
        key = self._seal_key()
        comparison, cost = asyncio.run(self._estimate(key))
        if not any(comparison.paths.values()) and not self.options.scope.whole:
            return self._report_no_difference()
        out.lines(price_lines(comparison, cost))
        limits = {**load_budget(self.loaded.program.library), **self.options.budget}
        _check_budget(cost.totals, limits)
        refusal = self._confirm(cost) if cost.totals.calls else None
        if refusal is not None:
            return refusal
        folder_path = self.options.runs / COMPARISONS_FOLDER
        with LocalStore(folder_path).create_run(self.options.workflow, shared=False) as folder:
            with folder.lease.hold(), closing(folder.open_journal(create=True)) as journal:
                budget = RunBudget(limits, MemoryJournal())
                try:
                    replies = SealedReplies(journal, key)
                    comparison, spent = asyncio.run(self._run_comparison(comparison.paths, replies, budget))
                except KeyboardInterrupt:
                    out.note("completed calls are saved: run the same command to resume without repeating them")
                    raise
            files = _save_comparison(folder, comparison)
        out.lines(table_lines(comparison))
        out.line(f"saved in {relative_to_cwd(files[0])}")
        out.data({**comparison.data(), "files": [str(file) for file in files]})
        if spent:
            out.note(f"error: {spent}, so samples are incomplete; completed calls are saved")
            out.note("hint: run the same command with a higher `--budget` to resume")
            return BudgetExhausted.exit_code
        return 0 if any(sample.has_result for sample in comparison.samples) else 1

    def _seal_key(self) -> bytes:
        """Return the user's key, which seals the recorded replies. If it cannot be used, print why, and return one for
        this comparison."""
        try:
            return ensure_signing_key()
        except (OSError, SkillrunError) as problem:
            self.out.note(f"warning: your recorded replies cannot be verified, now or later: {problem}")
            return secrets.token_bytes()

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

    def _confirm(self, cost: ComparisonCost) -> int | None:
        """Ask the user to confirm the price.

        Return None if the user agrees, exit code 1 if the user declines, and exit code 2 without a terminal.
        """
        can_ask = has_terminal() and not self.out.json
        if self.options.yes or (can_ask and click.confirm("Make these calls?", default=False, err=True)):
            return None
        expected = {**cost.totals.to_dict(), "judging": cost.judge_calls, "on_record": cost.recorded_calls}
        self.out.data({"status": "refused", "expected": expected})
        if can_ask:
            self.out.line(NO_CALLS_MADE)
            return 1
        self.out.note("error: confirming the price requires a terminal; no calls were made")
        self.out.note("hint: check the price, then add `--yes`")
        return 2

    def _sample_context(self, replies: SampleReplies) -> SampleContext:
        cache = cache_folder() if self.script is None else None
        return SampleContext(self.loaded.catalogue, replies, self.options.model, cache)

    async def _estimate(self, key: bytes) -> tuple[Comparison, ComparisonCost]:
        """Return a simulated comparison, and the estimated cost of the calls without a recorded reply."""
        catalogue, scope = self.loaded.catalogue, self.options.scope
        expected = ExpectedSizes.from_program(self.loaded.program)
        folder = self.options.runs / COMPARISONS_FOLDER / self.options.workflow
        journal = MemoryJournal()
        if folder.is_dir():
            with LocalRun(folder) as earlier:
                journal = earlier.read_journal() if earlier.has_journal else journal
        sealed = SealedReplies(journal, key)
        replies = SampleReplies(sealed, PaddedScriptedGateway(expected, (), price=catalogue.price), catalogue)
        context = self._sample_context(replies)
        paths: dict[str, ConversationPaths] = {}
        first_unreplied: dict[str, str] = {}
        for case, ready in self.sides[1].cases.items():
            both = [await collect_requests(side, case, context) for side in self.sides]
            several = scope.paths(*both)
            if several or scope.whole:
                paths[case] = several
            if len(several) > 1 and not scope.whole and not scope.phase:  # else the user has chosen the calls
                patterns = [rule.address for rule in ready.case.replies]
                if not any(fnmatchcase(f"{several[0]}/1.1", pattern) for pattern in patterns):
                    first_unreplied[case] = several[0]
        comparison, sample_calls = await self._collect_samples(paths, context, is_estimate=True)
        if number := len(sealed.unsealed):
            where = f"{number} of the replies in {relative_to_cwd(folder)}"
            self.out.note(f"warning: {where} cannot be verified as yours, and are not used: their calls are made again")
        totals = UsageTotals()
        for address, request, reply in replies.new_calls.values():
            totals += UsageTotals(1, reply.usage, reply.price)
            if request.tools:
                totals += tool_turn_usage(catalogue, request, expected.size_at(address))
        models = {request.model for _, request, _ in replies.new_calls.values()}
        judge_calls = len(replies.new_calls) - sample_calls
        addresses = catalogue.provider_locations(models)
        cost = ComparisonCost(totals, judge_calls, replies.recorded_calls, sorted(models), addresses, first_unreplied)
        return comparison, cost

    async def _run_comparison(
        self, paths: Mapping[str, ConversationPaths], recorded: SealedReplies, budget: RunBudget
    ) -> tuple[Comparison, str]:
        """Make the calls, and print a line for each sample and each judged pair.

        Return the comparison, and why the budget has refused a call; empty if it refused none.
        """

        def print_sample(sample: Sample) -> None:
            if sample.status != "interrupted":
                self.out.line(format_sample(sample))

        gateway: Gateway = self.loaded.open_gateway(self.script, self.out.note)
        warnings: set[str] = set()

        def print_warning(event: Event) -> None:
            if (warning := format_warning(event.to_dict())) and warning not in warnings:
                warnings.add(warning)
                self.out.note(warning)

        replies = SampleReplies(recorded, gateway, self.loaded.catalogue, budget)
        context = replace(self._sample_context(replies), listener=print_warning)
        try:
            comparison, _ = await self._collect_samples(
                paths, context, print_sample, lambda pair: self.out.line(format_judged_pair(pair))
            )
        finally:
            await gateway.close()
        return comparison, replies.refusal

    async def _collect_samples(
        self,
        paths: Mapping[str, ConversationPaths],
        context: SampleContext,
        on_sample: Callable[[Sample], None] = lambda _: None,
        on_pair: Callable[[JudgedPair], None] = lambda _: None,
        *,
        is_estimate: bool = False,
    ) -> tuple[Comparison, int]:
        """Run and judge the samples. Return the comparison, and the number of new calls before judging."""
        options, before, after = self.options, self.sides[0].name, self.sides[1].name
        samples = await run_samples(self.sides, paths, options.samples, context, on_sample, whole=options.scope.whole)
        comparison = Comparison(options.workflow, (before, after), options.judge, options.samples, paths, samples, [])
        sample_calls = len(context.replies.new_calls)
        if self.judge is not None:
            pairs = pairs_to_judge(comparison.pairs, is_estimate=is_estimate)
            judged = await judge_all_pairs(self.judge, pairs, self._judge_task, context, on_pair)
            comparison = replace(comparison, judged=judged)
        return comparison, sample_calls

    def _judge_task(self, case: str) -> str:
        """Return the description of a case for the judge, as YAML: the workflow, the inputs and the compared part."""
        ready, workflow = self.sides[1].cases[case], self.loaded.program.workflow
        given = {name: value for name, value in ready.inputs.items() if name in ready.case.input_names}
        task: dict[str, Any] = {"workflow": workflow.description, "inputs": given}
        if self.options.scope.phase:
            task["part"] = f"{self.options.scope.phase} {self.options.scope.step}".strip()
        return as_yaml(task)


def _check_budget(expected: UsageTotals, limits: Mapping[str, float]) -> None:
    """Raise UsageError if a comparison is expected to exceed one of the limits."""
    tokens = expected.usage.input + expected.usage.output
    for name, amount in {"calls": expected.calls, "tokens": tokens, "price": expected.price or 0}.items():
        if amount > limits.get(name, math.inf):
            needed = f"{amount:.2f}" if name == "price" else f"{amount}"
            message = f"the comparison needs about {needed} {WORDS[name]}, and the budget has {limits[name]:g}"
            raise UsageError(message, f"`--budget {name}={needed}` raises it; fewer `--samples` need less")


def _save_comparison(folder: LocalRun, comparison: Comparison) -> tuple[Path, Path]:
    """Write the comparison as markdown and as JSON, named by the next free number. Return both paths."""
    files = folder.files()
    number = next(n for n in count(1) if not any(files.is_taken(f"{n}{end}") for end in (".md", ".json")))
    texts = render_markdown(comparison), json.dumps(comparison.data(), indent=2, ensure_ascii=False) + "\n"
    for ending, text in zip((".md", ".json"), texts, strict=True):
        files.write(f"{number}{ending}", text)
    return folder.path / f"{number}.md", folder.path / f"{number}.json"


# the other version


@contextmanager
def _open_other_version(version: str, library: Library, project: Path) -> Iterator[Library]:
    """Yield a library with a different version of the project's files. Raises UsageError if the version does not exist.

    The version is a git revision, a folder, or `shipped`: the project without the files that override shipped files. A
    version that is not a folder is written to a temporary folder. Git objects are read directly to avoid running the
    hooks and filters of the repository.
    """
    with tempfile.TemporaryDirectory(prefix="skillrun-") as temporary:
        folder = Path(temporary)
        if version == SHIPPED:
            _copy_without_overrides(library, folder)
        elif version.startswith((".", os.sep)) or not _extract_revision(version, project, folder):
            folder = Path(os.path.realpath(version))
            if not any((folder / name).is_dir() for name in FOLDERS):
                named = ", ".join(f"{name}/" for name in FOLDERS)
                what = f"has none of {named}" if folder.is_dir() else "is neither a folder nor a git revision"
                raise UsageError(f"`{version}` {what}", VERSION_HINT)
        label = f"{version.rstrip('/')}:" if folder == Path(temporary) else f"{version.rstrip('/')}/"
        rest = [root for root in search_path(project) if root.name != "project"]
        yield Library([Root(folder, label, "project", is_confined=True), *rest])


def _copy_without_overrides(library: Library, target: Path) -> None:
    """Copy the project's files except those that override shipped files. Config files are always copied."""
    shipped = {name for name in shipped_files() if name.endswith(".md")}
    own = library.project_files(".")
    if not shipped.intersection(own):
        raise UsageError("no file of this project overrides a shipped one", VERSION_HINT)
    with ConfinedFolder(library.project, links=True) as source, ConfinedFolder(target) as copy:
        for name in set(own) - shipped:
            copy.create(name, source.read(name, MAX_PROSE))


def _extract_revision(revision: str, project: Path, target: Path) -> bool:
    """Write the files of a revision to `target`, and return True. If git or the revision is missing, return False.

    Raises UsageError if its files cannot be read.
    """
    git = Git.find(project)
    if git is None:
        return False
    try:
        _check_repository(git, project)
        return asyncio.run(_write_revision(git, revision, target))
    except CommitRefused as error:
        raise UsageError(f"`{revision}` {error}", error.hint) from error
    except TimeoutError:
        raise UsageError(f"reading `{revision}` takes too long", "compare with a folder") from None
    except GitFailed as error:
        hint = "`git fsck` checks the repository; a partial clone may lack files, which `git checkout` fetches"
        raise UsageError(f"`{revision}` cannot be read: {error}", hint) from error


async def _write_revision(git: Git, revision: str, target: Path) -> bool:
    commit = f"{revision}^{{commit}}"
    found = await git.run("rev-parse", "--verify", "--quiet", "--end-of-options", commit, seconds=REPLY_TIMEOUT)
    inside = await git.run("rev-parse", "--show-prefix", seconds=REPLY_TIMEOUT)
    if found.code or inside.code:
        return False
    start = os.fsdecode(inside.output).rstrip("\n").rstrip("/")
    async with asyncio.timeout(READ_TIMEOUT):
        count = await CommitWriter(git, target, start, FOLDERS, links=False).write(found.output.decode().strip())
    if not count:
        named = ", ".join(f"{name}/" for name in FOLDERS)
        raise UsageError(f"`{revision}` has no files of this project: {named} are missing", VERSION_HINT)
    return True


def _check_repository(git: Git, project: Path) -> None:
    """Raise UsageError if the project's `.git` points to a repository that is not the project's own.

    Anyone can write such a `.git`. The repository of a worktree or a submodule is outside of it, but points back: that
    of a worktree in the file `gitdir`, that of a submodule in the setting `core.worktree`.
    """
    found = asyncio.run(
        git.run("rev-parse", "--path-format=absolute", "--git-dir", "--git-common-dir", seconds=REPLY_TIMEOUT)
    )
    if found.code:
        return
    own, shared = (Path(os.path.realpath(line)) for line in os.fsdecode(found.output).rstrip("\n").split("\n", 1))
    folders = (project, *project.parents)
    top = Path(os.path.realpath(next((each for each in folders if is_repository(each)), project)))
    if shared.is_relative_to(top):
        return
    back = Path()
    if own.parent == shared / "worktrees":
        with ConfinedFolder(own) as folder, suppress(OSError, PathRefused):
            back = Path(os.path.realpath(own / os.fsdecode(folder.read("gitdir", LONGEST).rstrip(b"\n")))).parent
    else:
        setting = asyncio.run(
            git.run("config", "--file", str(shared / "config"), "core.worktree", seconds=REPLY_TIMEOUT)
        )
        back = Path(os.path.realpath(shared / os.fsdecode(setting.output.rstrip(b"\n"))))
    if back != top:
        message = f"{top / '.git'} points to the repository {shared}, which is not that of this folder"
        raise UsageError(message, "remove this `.git`, or compare with a folder")
