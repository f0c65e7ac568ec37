# ruff: noqa: E501 (a line for each use)
"""Hostile names, and the commands that read or write a file by a name.

Each command gets each name. Nothing outside of the clone may change or be printed, and the command ends soon, with a
documented exit code and within a memory limit.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from skillrun.cli.registry import COMMANDS
from tests.acceptance.hostile import DEMO, write

SECRET: Final = "CANARY-outside"
EXIT_CODES: Final = (0, 1, 2, 75)
SECONDS: Final = 10  # a command that waits for a pipe never ends
MAX_GROWTH: Final = 150_000  # kilobytes that a command may add to the peak of the process
SPARSE_BYTES: Final = 200_000_000

FILES: Final = {
    **DEMO,
    "workflows/demo.md": DEMO["workflows/demo.md"].replace("  what: string\n", "  what: string\n  where?: path\n"),
    "config/skillrun.yaml": "{}\n",
    "tests/demo/case.md": "---\ninputs: {what: hi}\nexpect: {outcome: completed}\n---\n",
    ".skillrun/ejected/roles/architect.md": "old\n",
    "roles/architect.md": "mine\n",
}


@dataclass(frozen=True)
class Scene:
    """A clone, and a folder of the user next to it."""

    clone: Path
    outside: Path

    @classmethod
    def create(cls, folder: Path, runs: Path | None = None) -> Scene:
        """Create the clone of FILES and the user's folder. The clone gets a copy of the folder `runs`."""
        scene = cls(folder / "clone", folder / "outside")
        write(scene.clone, FILES)
        (scene.clone / ".git/refs").mkdir(parents=True)
        write(scene.clone, {".git/HEAD": "ref: refs/heads/main\n", ".git/config": "[core]\n"})
        write(scene.outside, {"secret.txt": f"{SECRET}\n", "folder/secret.xml": f"{SECRET}\n"})
        if runs is not None:
            shutil.copytree(runs, scene.clone / "runs")
        return scene

    def snapshot(self) -> dict[str, tuple[int, int, bytes]]:
        """The mode, links and content of all files outside, and of git's own files."""
        found = {}
        for path in (*sorted(self.outside.rglob("*")), *sorted((self.clone / ".git").rglob("*"))):
            status = path.lstat()
            found[str(path)] = (status.st_mode, status.st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        return found


# names that are obstacles: the file that the clone has at the name

Plant = Callable[[Path, Scene], object]


def _link_through_folder(path: Path, scene: Scene) -> None:
    """Replace the parent folder of the path by a link to a folder outside."""
    if path.parent == scene.clone:
        path.symlink_to(scene.outside / "folder/secret.xml")
        return
    shutil.rmtree(path.parent)
    path.parent.symlink_to(scene.outside / "folder")


def _socket(path: Path, _: Scene) -> None:
    before = Path.cwd()
    os.chdir(path.parent)  # the path of a socket has at most 107 bytes
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path.name[:100])
    os.chdir(before)


def _sparse(path: Path, _: Scene) -> None:
    with path.open("wb") as file:
        file.truncate(SPARSE_BYTES)


OBSTACLES: Final[Mapping[str, Plant]] = {
    "link out": lambda path, scene: path.symlink_to(scene.outside / "secret.txt"),
    "relative link out": lambda path, scene: path.symlink_to(
        os.path.relpath(scene.outside / "secret.txt", path.parent)
    ),
    "dangling link out": lambda path, scene: path.symlink_to(scene.outside / "new.txt"),
    "link to a folder outside": lambda path, scene: path.symlink_to(scene.outside / "folder"),
    "link to git's settings": lambda path, scene: path.symlink_to(scene.clone / ".git/config"),
    "link to a device": lambda path, _: path.symlink_to("/dev/zero"),
    "pipe": lambda path, _: os.mkfifo(path),
    "socket": _socket,
    "hard link": lambda path, scene: path.hardlink_to(scene.outside / "secret.txt"),
    "folder": lambda path, _: path.mkdir(),
    "link loop": lambda path, _: path.symlink_to(path.name),
    "link through a folder": _link_through_folder,
    "sparse file": _sparse,
}

# names that are texts

TYPED: Final[Mapping[str, Callable[[Scene], str]]] = {
    "absolute": lambda scene: str(scene.outside / "secret.txt"),
    "parent": lambda scene: os.path.relpath(scene.outside / "secret.txt", scene.clone),
    "5,000 characters": lambda _: "n" * 5000,
    "5,000 characters in parts": lambda _: "nnnn/" * 1000 + "n",
    "300 characters": lambda _: "n" * 300,
    "surrogate": lambda _: "a\udcff.xml",
    "new line and escape": lambda _: "a\nforged\x1b[31m\r::error::forged.xml",
    "git's settings": lambda _: ".git/config",
    "git's settings in capitals": lambda _: ".GIT/config",
    "trailing slash": lambda _: "new/",
    "empty": lambda _: "",
    "dot": lambda _: ".",
    "dots": lambda _: "..",
    "tilde": lambda _: "~/x.xml",
    "option": lambda _: "--",
}
UNTYPABLE: Final[Mapping[str, Callable[[Scene], str]]] = {  # only a file can contain them
    "NUL": lambda _: "a\0b",
    "half of a surrogate pair": lambda _: "a\ud800b",
}


@dataclass(frozen=True)
class Use:
    """How a command uses a name: `{}` in `arguments` is a name that the user types. `planted` is a name that the
    command uses by itself. `case` is a test case with `{}` for a name.

    With `reads`, the user may type the path of any file, and the command may show what is in it.
    """

    arguments: tuple[str, ...]
    planted: str = ""
    case: str = ""
    reads: bool = False

    def __str__(self) -> str:
        return " ".join(self.arguments) + (f" [{self.planted or self.case}]" if self.planted or self.case else "")

    def names(self) -> list[str]:
        """The names that the use can get."""
        if self.planted:
            return list(OBSTACLES)
        return [*OBSTACLES, *TYPED, *(UNTYPABLE if self.case else ())]

    def prepare(self, scene: Scene, name: str) -> list[str]:
        """Put the obstacle into the clone, and return the arguments of the command. Another name is used as it is."""
        typed = "in/name.xml"
        if name in OBSTACLES:
            path = scene.clone / (self.planted or typed)
            path.parent.mkdir(parents=True, exist_ok=True)
            if os.path.lexists(path):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            OBSTACLES[name](path, scene)
        else:
            texts = {**TYPED, **UNTYPABLE}
            typed = texts[name](scene) if name in texts else name
        if self.case:
            text = self.case.replace("{}", json.dumps(typed))
            write(scene.clone, {"tests/demo/case.md": f"---\n{text}\n---\n"})
        return [argument.replace("{}", typed) for argument in self.arguments]


RUN: Final = ("demo", "hi", "--unattended", "--model", "scripted:default")
PROJECT_FILES: Final = (
    "workflows/demo.md", "skills/demo/say.md", "roles/clerk.md", "roles/new.md", "config/skillrun.yaml",
    "config/models.yaml", "tests/demo/case.md", "workflows", "roles",
)  # fmt: skip
RUN_FILES: Final = (
    "runs/hi/state.md", "runs/hi/.run/journal.db", "runs/hi/.run/witness", "runs/hi/.run/transcript.jsonl",
    "runs/hi/words.md", "runs/hi", "runs",
)  # fmt: skip


def with_argument(*arguments: str, reads: bool = False) -> list[Use]:
    return [Use(arguments, reads=reads)]


def in_case(*cases: str) -> list[Use]:
    return [Use(("test",), case=case) for case in cases]


def at(names: tuple[str, ...], *arguments: str) -> list[Use]:
    return [Use(arguments, planted=name) for name in names]


NEEDS_STORE: Final = "reads only rows of a store; tests/acceptance/store covers it"
# The uses of each command in the registry, or why it uses no name. `workflow` is the command of a workflow.
USES: Final[Mapping[str, list[Use] | str]] = {
    "workflow": [
        *at(PROJECT_FILES, *RUN),
        *at(("runs", "runs/.gitignore", "runs/new", "in/new"), *RUN, "--name", "new"),
        *with_argument(*RUN, "--name", "{}"),
        *with_argument(*RUN, "--where", "{}"),
        *with_argument(*RUN, "--answers", "{}", reads=True),
        *with_argument(*RUN[:-2], "--script", "{}", reads=True),
    ],
    "resume": [*at(RUN_FILES, "resume", "hi"), *with_argument("resume", "{}")],
    "dev": "runs a workflow as `workflow` does, and needs a terminal",
    "answers": [*at(RUN_FILES, "answers", "hi"), *with_argument("answers", "{}"), *with_argument("answers", "hi", "--answers", "{}", reads=True)],
    "questions": at(RUN_FILES, "questions"),
    "runs": [*at(RUN_FILES, "runs"), *with_argument("runs", "--out", "{}")],
    "show": [*at(RUN_FILES, "show", "hi"), *with_argument("show", "{}"), *with_argument("show", "hi", "{}")],
    "report": [
        *at((*RUN_FILES, "runs/hi/report.html"), "report", "hi"),
        *with_argument("report", "{}"),
        *with_argument("report", "hi", "--output", "{}"),
    ],
    "logs": [*at(RUN_FILES, "logs", "hi"), *with_argument("logs", "{}")],
    "diff": [*at(RUN_FILES, "diff", "hi", "hi"), *with_argument("diff", "{}", "hi")],
    "sizes": [*at(RUN_FILES, "sizes", "hi"), *with_argument("sizes", "{}")],
    "init": [
        *with_argument("init", "{}"),
        *at(("new/workflows/hello.md", "new/AGENTS.md", "new"), "init", "new"),
    ],
    "new": [
        *with_argument("new", "workflow", "{}"),
        *with_argument("new", "phase", "demo/{}"),
        *at(("workflows/fresh.md", "skills/fresh", "roles", "workflows"), "new", "workflow", "fresh"),
    ],
    "list": at(PROJECT_FILES, "list"),
    "graph": [*at(PROJECT_FILES, "graph", "demo"), *with_argument("graph", "{}")],
    "eject": [
        *with_argument("eject", "{}"),
        *at(("roles", "roles/reviewer.md", ".skillrun", ".skillrun/ejected/roles/reviewer.md"), "eject", "roles/reviewer.md"),
    ],
    "outdated": [
        *with_argument("outdated", "{}"),
        *at(("roles", "roles/architect.md", ".skillrun/ejected/roles/architect.md", ".skillrun"), "outdated", "--merge"),
        *at(("roles/architect.md",), "outdated", "--diff"),
    ],
    "schema": with_argument("schema", "{}"),
    "hint": [*at(PROJECT_FILES, "hint", "add a page"), *with_argument("hint", "hi", "--workflow", "{}")],
    "skill": [
        *with_argument("skill", "{}"),
        *with_argument("skill", "--to", "{}"),
        *at(("agents", "agents/skillrun-author", "agents/skillrun-author/SKILL.md"), "skill", "--to", "agents"),
    ],
    "lsp": "speaks the protocol of editors; tests/acceptance/editor covers it",
    "validate": [*at(PROJECT_FILES, "validate"), *at(PROJECT_FILES, "validate", "--format", "sarif")],
    "test": [
        *at(PROJECT_FILES, "test"),
        *with_argument("test", "{}"),
        *with_argument("test", "demo", "{}"),
        *with_argument("test", "--junit", "{}"),
        *at(("results.xml",), "test", "--junit", "results.xml"),
        *with_argument("test", "--record", "{}"),
        *with_argument("test", "--record", "hi", "--as", "{}"),
        *at((*RUN_FILES, "tests", "tests/demo", "tests/demo/hi", "tests/demo/hi.md"), "test", "--record", "hi"),
        *with_argument("test", "demo", "--compare", "{}", "--script", "none.yaml", "--whole", "--yes"),
        *at(("runs", "runs/.compared", "runs/.compared/demo"), "test", "demo", "--compare", ".", "--script", "s.yaml", "--whole", "--yes"),
        *in_case(
            "replies: [{}]", "project: {}", "runs: {}", "prompts: {}", "model: {}", "inputs: {what: hi, where: {}}",
            "expect: {artifacts: {words.md: {equals: {}}}}", "expect: {artifacts: {{}: true}}",
        ),
    ],
    "render": [*at(PROJECT_FILES, "render", "demo", "say"), *with_argument("render", "demo", "{}"), *with_argument("render", "--run", "{}", "say/words")],
    "doctor": [*at(PROJECT_FILES, "doctor"), *with_argument("doctor", "--provider", "{}")],
    "models": at(PROJECT_FILES, "models"),
    "trust": at(PROJECT_FILES, "trust", "--show"),
    "completion": with_argument("completion", "{}"),
    "submit": NEEDS_STORE,
    "worker": NEEDS_STORE,
    "cancel": NEEDS_STORE,
    "store": [*with_argument("store", "import", "{}"), *with_argument("store", "pull", "hi", "{}"), *with_argument("store", "edit", "{}")],
}  # fmt: skip


def unlisted_commands() -> set[str]:
    """The commands of the registry that have no entry."""
    return {"workflow", *COMMANDS} ^ set(USES)


def uses() -> Iterator[Use]:
    for entry in USES.values():
        if not isinstance(entry, str):
            yield from entry


@contextmanager
def limits() -> Iterator[None]:
    """Raise TimeoutError after SECONDS, and MemoryError if the process grows by more than about 1 GB."""

    def stop(*_: object) -> None:
        raise TimeoutError(f"the command took more than {SECONDS} seconds")

    handler = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    peak, soft, hard = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, *resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (2**31, hard))
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, handler)
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
    growth = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak
    assert growth < MAX_GROWTH, f"the command used {growth:,} more kilobytes"


def check(use: Use, name: str, scene: Scene, run: Callable[[list[str]], tuple[int, str]]) -> None:
    """Run the command in the clone. `run` returns the exit code and all output."""
    arguments = use.prepare(scene, name)
    before = scene.snapshot()
    with limits():
        code, output = run(arguments)
    assert scene.snapshot() == before, f"the command changed a file outside:\n{output[-2000:]}"
    assert code in EXIT_CODES, output[-2000:]
    # a clone has no hard links, so what a hard link leads to is the user's own doing; but it must not be changed
    if name != "hard link" and not (use.reads and name in ("absolute", "parent")):
        assert SECRET not in output, output[-2000:]
    assert "\x1b" not in output
    forged = [line for line in output.split("\n") if line.startswith("forged") or line.lstrip().startswith("::error")]
    assert forged == [], output[-2000:]
