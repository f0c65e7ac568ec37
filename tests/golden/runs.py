"""Packed run folders of older commits, and descriptions of the same runs finished by those commits.

`make.py` creates them; `test_golden_runs.py` resumes them. Only `describe` depends on the engine, to read the journal.
"""

from __future__ import annotations

import io
import json
import re
import shutil
import tarfile
from contextlib import closing
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from skillrun.store.local.journal import read_journal

HERE: Final = Path(__file__).parent
PROJECT: Final = HERE / "project"
RUNS: Final = HERE / "runs"
KEY: Final = bytes.fromhex("5e" * 32)  # signs the states of these runs
NAME: Final = "run"
KINDS: Final = (
    "sent",
    "tried",
    "reply",
    "failed",
    "tool",
    "answer",
    "wrote",
    "void",
    "note",
    "summary",
)
_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00")
_ELSEWHERE: Final = re.compile(r"^(seal|project): .*\n|^(files|models):\n(  .*\n)+", re.MULTILINE)
"""Parts of the state that depend on the location, on other files, and on the models in the catalogue."""
_OTHER_MEMBER: Final = re.compile(r"is another member''?s; what (\S+) wrote is ([\w./-]+)")
"""A warning in summaries, as older commits worded it."""
_ANSWERS: Final = (("Answer:\n", "Answer: in May\n"), ("- [ ] A. on foot", "- [x] A. on foot"))


@dataclass(frozen=True)
class Case:
    """An unfinished run: its commit, its state, and the exit codes of the commands that finish it.

    `killed`: it was killed before the reply to the call at this address in this round was recorded.
    """

    left: str
    commit: str = "f9d6455"
    killed: tuple[str, int] | None = None
    answered: bool = False  # the form is filled in
    script: str = "script.yaml"
    exit_codes: tuple[int, ...] = (0,)  # of the commands that finish the run
    first_version: bool = False


CASES: Final[dict[str, Case]] = {
    "done": Case("completed", answered=True),
    "paused": Case("waiting for a form that is filled in"),
    "failed": Case("failed on a wrong key, inside an inline run", script="failing.yaml", exit_codes=(75, 0)),
    "killed-each": Case("killed inside an `each`", killed=("trek/look/stops~upper-hut-*/view/", 1), exit_codes=(75, 0)),
    "killed-inline": Case("killed inside a `run`", killed=("trek/look/notice/sign/", 1), exit_codes=(75, 0)),
    "killed-third-round": Case("killed in its third round", killed=("trek/pack/bag/", 3), answered=True),
    "first-version": Case("paused, its state of schema version 1", first_version=True),
    "plain-journal": Case("paused, its journal of version 2", commit="1ab51ae"),
    "plain-journal-killed": Case(
        "killed, its journal of version 2", commit="1ab51ae", killed=("trek/pack/bag/", 2), answered=True
    ),
}


def fill_in(run: Path) -> None:
    """Fill in the form of a waiting run."""
    form = run / "questions.md"
    text = form.read_text(encoding="utf-8")
    for old, new in _ANSWERS:
        assert old in text
        text = text.replace(old, new, 1)
    form.write_text(text, encoding="utf-8")


def pack(run: Path, target: Path) -> None:
    """Pack a run folder; the same files give the same bytes."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:xz", preset=9) as archive:
        for path in sorted(run.rglob("*")):
            if path.name in ("owner.json", "journal.db-shm"):
                continue
            entry = tarfile.TarInfo(f"{NAME}/{path.relative_to(run).as_posix()}")
            entry.mode, content = path.stat().st_mode & 0o777, b""
            if path.is_dir():
                entry.type = tarfile.DIRTYPE
            else:
                content = path.read_bytes()
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    target.write_bytes(packed.getvalue())


def unpack(case: str, runs: Path) -> Path:
    """Unpack the run folder of a case into `runs`."""
    runs.mkdir(exist_ok=True)
    with tarfile.open(RUNS / case / "left.tar.xz") as archive:
        archive.extractall(runs, filter="data")
    return runs / NAME


def describe(run: Path) -> str:
    """Every file of a run and every record of its journal, without times and what depends on the location."""
    parts = []
    for path in sorted(run.rglob("*")):
        name = path.relative_to(run).as_posix()
        if path.is_file() and not name.startswith(".run/"):
            parts.append(f"=== {name}\n{_normalize(path.read_text(encoding='utf-8'))}")
    parts.append("=== the journal\n" + "".join(f"{line}\n" for line in record_lines(run)))
    return "".join(parts)


def record_lines(run: Path) -> list[str]:
    """A line for each record, sorted because parallel steps record in any order.

    The bodies of artifact records are ignored, because older commits stored only hashes.
    """
    with closing(read_journal(run)) as journal:
        entries = [(kind, entry) for kind in KINDS for entry in journal.entries(kind)]
    bodies = [(kind, entry, {} if kind == "wrote" else entry.body) for kind, entry in entries]
    return sorted(f"{kind} {entry.address} {entry.fingerprint[:16]} {_digest(body)}" for kind, entry, body in bodies)


def _digest(body: dict[str, Any]) -> str:
    text = json.dumps(_without_times(body), sort_keys=True, ensure_ascii=False)
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_times(each) for key, each in value.items() if key not in ("asked_at", "seconds")}
    return [_without_times(each) for each in value] if isinstance(value, list) else value


def _normalize(text: str) -> str:
    text = _OTHER_MEMBER.sub(r"belongs to another member; the reply of \1 is in \2", text)
    return _ELSEWHERE.sub("", _MOMENT.sub("(a moment)", text))


def make_project(folder: Path) -> None:
    """Create a project with the library of these runs, which uses every part of a prompt."""
    shutil.copytree(PROJECT, folder, dirs_exist_ok=True)
