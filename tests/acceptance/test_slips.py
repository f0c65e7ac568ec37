"""Typical slips in the shipped files are refused offline, in the file and at the line where they were made."""

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
EVERY: Final = 1 if "SKILLRUN_EXAMPLES" in os.environ else 4  # a kind of slip is made in one of so many files
REFUSED, WARNED, ELSEWHERE, MISSED = "refused", "warned of", "refused elsewhere", "missed"

# Keys of other tools stand in roles and Agent Skills, and a project adds entries to a config: slips there are warnings.
ONLY_WARNED: Final = {"misspelt config key": ("config/",), "misspelt key": ("roles/", "skills/security-review/")}

# A name that is misspelt where it is made is found by whoever reads it, or not at all.
DECLARATION: Final = "misspelt declaration"

# Nothing says which texts a config value or an input's list may hold.
UNKNOWABLE: Final = {
    "skills/protocols/perspectives.md": {"`light` → `lgiht`"},
    "skills/protocols/red-team.md": {"`CRITICAL` → `CIRTICAL`", "`MAJOR` → `MJAOR`", "`MINOR` → `MNIOR`"},
    # What the flags of an earlier round held, and a free answer.
    "skills/refine/answers.md": {"`id` → `idd`", "`proceed` → `porceed`"},
    # A phase that names a file while it runs may write any.
    "workflows/refine.md": {"`PRD.md` → `PDR.md`"},
    "skills/plan/validation.md": {
        "`think-deep-assumptions.md` → `tihnk-deep-assumptions.md`",
        "`think-deep-second-order.md` → `tihnk-deep-second-order.md`",
    },
    "skills/refine/completion.md": {"`decisions-since.md` → `dceisions-since.md`", "`place` → `plac`"},
    "skills/feature/requirements.md": {"`one` → `oen`"},  # a loop that counts alone
    # Strategies and variants of roles are added by files.
    "skills/plan/architecture.md": {"`quick` → `qiuck`"},
    "skills/plan/test-strategy.md": {"`quick` → `qiuck`"},
    "skills/plan/research.md": {"`domain` → `dmoain`"},
    "skills/refine/research.md": {"`none` → `nnoe`"},
    "skills/refine/rounds.md": {
        "`validation_decision` → `vlaidation_decision`",
        "`completion_rate` → `cmopletion_rate`",
    },
    "skills/refine/prd.md": {"`Sources` → `Suorces`"},  # a heading of what is delivered
    "skills/feature/brainstorming.md": {"`question` → `qeustion`"},  # a name that `pick` gives
    "skills/refine/rounds-digest.md": {
        *("`analysis_mode` → `analysis_mod`", "`gaps` → `gpas`", "`id` → `idd`"),
        *("`completion_rate` → `cmopletion_rate`", "`completion_rate` → `completion_rat`"),
    },
}


class Bench:
    """A project over the shipped library, with slips in some of its files."""

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
        """The workflows that read a file, where not all do."""
        found: dict[str, list[str]] = defaultdict(list)
        workflows = self.library.names("workflows")
        for name in workflows:
            library = Library(self.library.roots, self.library)
            check_workflow(library, name)
            for _, path in library.files:
                found[path].append(name)
        return {path: names for path, names in found.items() if len(names) < len(workflows)}

    def problems(self, made: Iterable[Slip]) -> list[Problem]:
        """What is wrong with these slips in their files; where it is one slip, in the workflows that read its file."""
        made = list(made)
        paths = []
        for slip in made:
            path = self.project / slip.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(slip.text, encoding="utf-8")
            paths.append(path)
        library = Library(self.library.roots, self.library)
        readers = self.readers.get(made[0].path) if len(made) == 1 else None
        for name in readers or ():
            check_workflow(library, name)
        if readers is None:
            check_library(library)
        for path in paths:
            path.unlink()
        return list(library.problems)

    def verdict(self, slip: Slip, problems: list[Problem]) -> str:
        here = [one for one in problems if one.path == slip.path and (not slip.lines or one.line in slip.lines)]
        if any(one.severity == "error" for one in (here if slip.lines else problems)):
            return REFUSED
        return WARNED if here else ELSEWHERE if problems else MISSED

    def verdicts(self) -> Iterator[tuple[Slip, str]]:
        """One slip in each file at a time; what is not refused at its line in such company is tried alone."""
        chosen = _sample(self.files)
        for together in zip_longest(*([(file, slip) for slip in made] for file, made in chosen)):
            made = [pair for pair in together if pair is not None]
            problems = self.problems(slip for _, slip in made)
            for file, slip in made:
                verdict = self.verdict(slip, problems) if slip.lines else ""
                if verdict != REFUSED:
                    verdict = self.verdict(slip, self.problems([slip]))
                if verdict == REFUSED or not (self.is_another_name(slip) or changes_only_layout(file, slip)):
                    yield slip, verdict

    def is_another_name(self, slip: Slip) -> bool:
        """Whether the slip makes one name of the library into another, which may be right where it stands."""
        return (
            slip.kind.endswith("in an expression")
            and slip.what.rpartition("`")[0].rpartition("`")[2] in self.vocabulary
        )


def _sample(files: Iterable[File]) -> list[tuple[File, list[Slip]]]:
    """Each file with its slips, thinned out evenly: of each kind a few, in one of `EVERY` files that can have it."""
    by_kind: dict[str, list[tuple[File, list[Slip]]]] = defaultdict(list)
    for file in files:
        kinds: dict[str, list[Slip]] = defaultdict(list)
        for slip in slips(file):
            kinds[slip.kind].append(slip)
        for kind, several in kinds.items():
            by_kind[kind].append((file, several))
    chosen: dict[str, tuple[File, list[Slip]]] = {}
    for number, places in enumerate(by_kind.values()):
        for file, several in places[number % EVERY :: EVERY] or places:
            step = max(1, len(several) // (2 * MOST))
            chosen.setdefault(file.path, (file, []))[1].extend(several[step // 2 :: step][:MOST])
    return [*chosen.values()]


def _is_description(slip: Slip) -> bool:
    """Whether it is a colon in the description of a file that other tools read as well, where it may be."""
    return slip.kind == "colon in a value" and (slip.path.startswith("roles/") or slip.path.endswith("/SKILL.md"))


def _is_only_warned(slip: Slip) -> bool:
    return slip.path.startswith(ONLY_WARNED.get(slip.kind, ()))


@pytest.mark.slow
@pytest.mark.row("X2")
def test_each_slip_in_a_shipped_file_is_refused_at_its_line(tmp_path: Path) -> None:
    found: dict[str, Counter[str]] = defaultdict(Counter)
    wrong = []
    for slip, verdict in Bench(tmp_path).verdicts():
        found[slip.kind][verdict] += 1
        excused = slip.kind == DECLARATION or (verdict == WARNED and _is_only_warned(slip)) or _is_description(slip)
        if verdict != REFUSED and not excused and slip.what not in UNKNOWABLE.get(slip.path, ()):
            wrong.append(f"{verdict}: {slip}")
    for kind, counts in sorted(found.items()):
        print(f"{kind:36} {counts.total():5} {', '.join(f'{verdict} {n}' for verdict, n in counts.items())}")  # noqa: T201
    assert not wrong, "\n".join(wrong)
    assert sum(counts[REFUSED] for counts in found.values()) > 700 / EVERY
    assert found[DECLARATION][REFUSED] > found[DECLARATION].total() * 2 / 3
