"""Hostile names at random: each command gets them as arguments and in test cases, and as files in the clone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Final

from tests.acceptance.hostile import write
from tests.acceptance.names import FILES, OBSTACLES, PROJECT_FILES, RUN, RUN_FILES, TYPED, Scene, check, uses

PIECES: Final = (
    "a", ".md", " ", "-", "--", "*", "?", "[a]", "'", '"', "`", "$HOME", "%s", "{{ a }}", "é", "\u202e", "\udcff",
    "\n", "\r", "\t", "\x1b[31m", "\x9b", "\x07", "\nforged", "::error::forged", "\n::error::forged", "##[error]forged",
    "n" * 60, "n" * 300, "in/", "./", "//", "tests/", "runs/hi", "workflows/", "demo", "@", "#", "://", "\\", "|",
)  # fmt: skip
COMMAND: Final = "import sys; from skillrun.cli.main import main; sys.exit(main(sys.argv[1:]))"


def cases(random: Random) -> Iterator[str]:
    """An endless sequence of cases: the seeds of a use and a name."""
    while True:
        yield str(random.randrange(10**9))


def hold(folder: Path, case: str) -> None:
    """Test a use with a name in a new clone, whose run is created once in `folder`."""
    runs, home, place = folder / "project/runs", folder / "home", folder / case
    if not runs.is_dir():
        write(folder / "project", FILES)
        code, output = _run([*RUN, "--name", "hi"], folder / "project", home)
        assert code == 0, output
    random = Random(case)
    use = random.choice(list(uses()))
    if use.planted:
        use = replace(use, planted=random.choice((use.planted, *PROJECT_FILES, *RUN_FILES)))
        name = random.choice(list(OBSTACLES))
    elif random.random() < 0.3:
        name = random.choice([*OBSTACLES, *TYPED])
    else:
        name = "".join(random.choices(PIECES, k=random.randrange(1, 8)))
    scene = Scene.create(place, runs)
    try:
        check(use, name, scene, lambda arguments: _run(arguments, scene.clone, home))
    except (AssertionError, TimeoutError) as error:
        raise AssertionError(f"{use} with {name!r}: {error}") from error
    finally:
        shutil.rmtree(place)


def _run(arguments: list[str], folder: Path, home: Path) -> tuple[int, str]:
    variables = {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, *arguments],
        cwd=folder,
        env=variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    return done.returncode, (done.stdout + done.stderr).decode("utf-8", "replace")
