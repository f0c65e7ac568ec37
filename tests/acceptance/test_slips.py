"""Typical slips in the shipped files are refused offline, in the file and on the line of the slip."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Final

import pytest

from skillrun.checker.checker import check_library, check_workflow
from skillrun.library.library import Library
from skillrun.library.roots import Root, package_library
from skillrun.syntax.diagnostics import Problem
from tests.acceptance.slips import File, Slip, changes_only_layout, read, slips, words

MOST: Final = int(os.environ.get("SKILLRUN_EXAMPLES") or 1)  # slips of one kind in one file
EVERY: Final = 1 if "SKILLRUN_EXAMPLES" in os.environ else 4  # each kind of slip is made in one of this many files
REFUSED, WARNED, ELSEWHERE, MISSED = "refused", "warned of", "refused in another place", "missed"

# Roles and Agent Skills can come from other tools, and projects add config entries, so slips there are warnings.
FOREIGN: Final = ("roles/", "skills/security-review/SKILL.md")
ONLY_WARNED: Final = {"misspelt config key": ("config/",)}

# In a foreign file, these change nothing: it is read without its first `---`, and its file name is its name.
HARMLESS: Final = {("lost opening fence", ""), ("wrong type", "name")}

# A misspelt declaration is found only where the name is used, if at all.
DECLARATION: Final = "misspelt declaration"

# The allowed texts of these values are not declared.
UNKNOWABLE: Final = {
    "skills/protocols/perspectives.md": {"`light` → `lgiht`"},
    "skills/protocols/red-team.md": {"`CRITICAL` → `CIRTICAL`", "`MAJOR` → `MJAOR`", "`MINOR` → `MNIOR`"},
    # Flags of an earlier round, and a free-text answer.
    "skills/refine/answers.md": {"`id` → `idd`", "`proceed` → `porceed`"},
    # A phase that names its files at run time can write any file.
    "workflows/refine.md": {"`PRD.md` → `PDR.md`"},
    "skills/plan/validation.md": {
        "`think-deep-assumptions.md` → `tihnk-deep-assumptions.md`",
        "`think-deep-second-order.md` → `tihnk-deep-second-order.md`",
    },
    "skills/refine/completion.md": {"`decisions-since.md` → `dceisions-since.md`", "`place` → `plac`"},
    "skills/feature/requirements.md": {"`one` → `oen`"},  # a loop that only counts
    # Files can add strategies and variants of roles.
    "skills/plan/architecture.md": {"`quick` → `qiuck`"},
    "skills/plan/test-strategy.md": {"`quick` → `qiuck`"},
    "skills/plan/research.md": {"`domain` → `dmoain`"},
    "skills/refine/research.md": {"`none` → `nnoe`"},
    "skills/refine/rounds.md": {
        "`validation_decision` → `vlaidation_decision`",
        "`completion_rate` → `cmopletion_rate`",
    },
    "skills/refine/prd.md": {"`Sources` → `Suorces`"},  # a heading of the delivered document
    "skills/feature/brainstorming.md": {"`question` → `qeustion`"},  # a name defined by `pick`
    "skills/refine/rounds-digest.md": {
        *("`analysis_mode` → `analysis_mod`", "`gaps` → `gpas`", "`id` → `idd`"),
        *("`completion_rate` → `cmopletion_rate`", "`completion_rate` → `completion_rat`"),
    },
}


class Bench:
    """A project on top of the shipped library, with slips in some files."""

    def __init__(self, project: Path) -> None:
        self.project = project
        shipped = package_library()
        self.library = Library((Root(project, "", "project"), Root(shipped, "skillrun:", "library")))
        check_library(self.library)
        assert list(self.library.problems) == []
        self.files = [read(shipped, path) for _, path in self.library.files]
        self.vocabulary = {word.text for file in self.files for word in words(file)}
        self.readers = self._readers()

    def _readers(self) -> dict[str, list[str]]:
        """The workflows that read each file, for files that not all workflows read."""
        found: dict[str, list[str]] = defaultdict(list)
        workflows = self.library.names("workflows")
        for name in workflows:
            library = Library(self.library.roots, self.library)
            check_workflow(library, name)
            for _, path in library.files:
                found[path].append(name)
        return {path: names for path, names in found.items() if len(names) < len(workflows)}

    def problems(self, batch: Iterable[Slip]) -> list[Problem]:
        """The problems that these slips cause; a single slip is checked only in the workflows that read its file."""
        batch = list(batch)
        paths = []
        for slip in batch:
            path = self.project / slip.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(slip.text, encoding="utf-8")
            paths.append(path)
        library = Library(self.library.roots, self.library)
        # A workflow does not report a role that only a config names.
        is_narrow = len(batch) == 1 and not batch[0].path.startswith("roles/")
        readers = self.readers.get(batch[0].path) if is_narrow else None
        for name in readers or ():
            check_workflow(library, name)
        if readers is None:
            check_library(library)
        for path in paths:
            path.unlink()
        return list(library.problems)

    def verdict(self, slip: Slip, problems: list[Problem]) -> str:
        local = [
            problem
            for problem in problems
            if problem.path == slip.path and (not slip.lines or problem.line in slip.lines)
        ]
        if any(problem.severity == "error" for problem in (local if slip.lines else problems)):
            return REFUSED
        return WARNED if local else ELSEWHERE if problems else MISSED

    def verdicts(self) -> Iterator[tuple[Slip, str]]:
        """Try one slip in each file at a time, and retry alone any slip that is not refused at its line."""
        chosen = _sample(self.files)
        for together in zip_longest(*([(file, slip) for slip in pairs] for file, pairs in chosen)):
            pairs = [pair for pair in together if pair is not None]
            problems = self.problems(slip for _, slip in pairs)
            for file, slip in pairs:
                verdict = self.verdict(slip, problems) if slip.lines else ""
                if verdict != REFUSED:
                    verdict = self.verdict(slip, self.problems([slip]))
                if verdict == REFUSED or not (self.is_another_name(slip) or changes_only_layout(file, slip)):
                    yield slip, verdict

    def is_another_name(self, slip: Slip) -> bool:
        """Whether the slip turns one name of the library into another, which may be valid there."""
        return (
            slip.kind.endswith("in an expression")
            and slip.what.rpartition("`")[0].rpartition("`")[2] in self.vocabulary
        )


def _sample(files: Iterable[File]) -> list[tuple[File, list[Slip]]]:
    """An even sample of slips by file: a few of each kind, in one of `EVERY` files that can have it."""
    by_kind: dict[str, list[tuple[File, list[Slip]]]] = defaultdict(list)
    for file in files:
        kinds: dict[str, list[Slip]] = defaultdict(list)
        for slip in slips(file):
            kinds[slip.kind].append(slip)
        for kind, found in kinds.items():
            by_kind[kind].append((file, found))
    chosen: dict[str, tuple[File, list[Slip]]] = {}
    for number, places in enumerate(by_kind.values()):
        for file, found in places[number % EVERY :: EVERY] or places:
            step = max(1, len(found) // (2 * MOST))
            chosen.setdefault(file.path, (file, []))[1].extend(found[step // 2 :: step][:MOST])
    return [*chosen.values()]


def _is_description(slip: Slip) -> bool:
    """Whether the slip is a colon in a description that other tools also read, where colons are allowed."""
    return slip.kind == "colon in a value" and (slip.path.startswith("roles/") or slip.path.endswith("/SKILL.md"))


def _is_harmless(slip: Slip) -> bool:
    key = slip.text.splitlines()[min(slip.lines) - 1].partition(":")[0] if slip.kind == "wrong type" else ""
    return slip.path.startswith(FOREIGN) and (slip.kind, key) in HARMLESS


def _is_only_warned(slip: Slip) -> bool:
    return slip.path.startswith((*FOREIGN, *ONLY_WARNED.get(slip.kind, ())))


@pytest.mark.slow
@pytest.mark.row("X2")
def test_each_slip_in_a_shipped_file_is_refused_at_its_line(tmp_path: Path) -> None:
    found: dict[str, Counter[str]] = defaultdict(Counter)
    wrong = []
    for slip, verdict in Bench(tmp_path).verdicts():
        found[slip.kind][verdict] += 1
        excused = slip.kind == DECLARATION or (verdict == WARNED and _is_only_warned(slip))
        excused = excused or _is_description(slip) or _is_harmless(slip)
        if verdict != REFUSED and not excused and slip.what not in UNKNOWABLE.get(slip.path, ()):
            wrong.append(f"{verdict}: {slip}")
    for kind, counts in sorted(found.items()):
        print(f"{kind:36} {counts.total():5} {', '.join(f'{verdict} {n}' for verdict, n in counts.items())}")  # noqa: T201
    assert not wrong, "\n".join(wrong)
    assert sum(counts[REFUSED] for counts in found.values()) > 700 / EVERY
    assert found[DECLARATION][REFUSED] > found[DECLARATION].total() * 2 / 3
