"""Makes the pictures of the README in `docs/pictures`: `python -m docsite.pictures`, or `make pictures`.

Both show the finished run in `docs/finished`: its report in Chromium, and an edit of a role in `dev`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from playwright.sync_api import ViewportSize, sync_playwright

from docsite.recording import Terminal, draw
from docsite.staging import TOP

FOLDER: Final = TOP / "docs" / "pictures"
BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome")
SKILLRUN: Final = str(Path(sys.executable).with_name("skillrun"))
REPORT_SIZE: Final[ViewportSize] = {"width": 1280, "height": 880}
TERMINAL_SIZE: Final = (112, 25)
FLAGS: Final = (
    "--repo shelf --mode standard --unattended",
    "--name reminders --script replies.yaml --model scripted:reader",
)
EDIT: Final = "echo 'Give one reason for each score.' >> roles/judge.md"


def main() -> int:
    """Write both pictures."""
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / "finished"
        shutil.copytree(TOP / "docs" / "finished", project)
        (project / "runs" / "reminders" / ".run").chmod(0o755)
        environ = {"HOME": folder, "PATH": os.environ["PATH"], "TERM": "xterm-256color", "LANG": "C.UTF-8"}
        picture_report(project, environ, FOLDER / "report.png")
        (FOLDER / "dev.svg").write_text(record_dev(project, environ), encoding="utf-8")
    for path in sorted(FOLDER.iterdir()):
        print(f"{path.relative_to(TOP)}: {path.stat().st_size / 1000:.0f} kB")
    return 0


def picture_report(project: Path, environ: dict[str, str], target: Path) -> None:
    """The top of the run's report, as a PNG."""
    page = project.parent / "report.html"
    subprocess.run([SKILLRUN, "report", "reminders", "--output", str(page)], cwd=project, env=environ, check=True)
    browser_path = next(filter(None, map(shutil.which, BROWSERS)))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--disable-dev-shm-usage"])
        tab = browser.new_page(viewport=REPORT_SIZE, color_scheme="light")
        tab.goto(page.as_uri())
        tab.screenshot(path=target)
        browser.close()


def record_dev(project: Path, environ: dict[str, str]) -> str:
    """A turn of `dev` that reuses every call, an edit of a role, and the turn that follows, as an animated SVG."""
    subprocess.run([SKILLRUN, "eject", "roles/judge.md"], cwd=project, env=environ, check=True)
    request = (project / "request.md").read_text(encoding="utf-8").strip()
    command = [SKILLRUN, "dev", "plan", request, *" ".join(FLAGS).split()]
    typed = f'$ skillrun dev plan "$(cat request.md)" {FLAGS[0]} \\\n    {FLAGS[1]}'
    terminal = Terminal(command, project, environ, TERMINAL_SIZE, typed)
    terminal.wait(lambda screen: "watching" in screen)
    terminal.annotate(f"another terminal $ {EDIT}")
    subprocess.run(["/bin/sh", "-c", EDIT], cwd=project, check=True)
    terminal.wait(lambda screen: "watching" not in screen)
    terminal.wait(lambda screen: "watching" in screen)
    terminal.close(b"q")
    return draw(
        terminal.frames, TERMINAL_SIZE[0], "skillrun dev: one role is edited, and only the calls it changes are made"
    )


if __name__ == "__main__":
    sys.exit(main())
