"""The pictures of the README: their allowed content, and how a terminal is recorded."""

from __future__ import annotations

import os
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from docsite.recording import Frame, Run, Terminal, draw

TOP = Path(__file__).parents[2]
FOLDER = TOP / "docs" / "pictures"
ELEMENTS = {"svg", "title", "style", "rect", "defs", "g", "text", "use"}
COMMAND = r"""printf 'one\n\033[1;32mtwo\033[0m\n'; read key; printf 'got %s\n' "$key" """


def problems(svg: str) -> list[str]:
    """Return the parts of a picture that could run code, load a file, or hide text if motion is reduced."""
    found = []
    for element in ET.fromstring(svg).iter():
        name = element.tag.removeprefix("{http://www.w3.org/2000/svg}")
        found += [] if name in ELEMENTS else [f"<{name}>"]
        for key, value in element.attrib.items():
            if key.startswith("on") or ("href" in key and not value.startswith("#")) or "url(" in value:
                found.append(f"{key}={value}")
    style = "".join(re.findall(r"<style>(.*?)</style>", svg, re.DOTALL))
    found += re.findall(r"@import|url\(|@font-face", style)
    return found if "prefers-reduced-motion" in style else [*found, "no reduced motion"]


@pytest.mark.row("A4")
def test_the_pictures_of_the_readme_exist_and_are_small() -> None:
    paths = re.findall(r"!\[[^\]]+\]\((docs/pictures/[^)]+)\)", (TOP / "README.md").read_text(encoding="utf-8"))
    assert sorted(paths) == ["docs/pictures/dev.svg", "docs/pictures/report.png"]
    assert (FOLDER / "report.png").stat().st_size <= 250_000
    assert (FOLDER / "dev.svg").stat().st_size <= 150_000


def test_the_recording_runs_no_code_and_loads_no_files() -> None:
    assert problems((FOLDER / "dev.svg").read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "part",
    [
        "<script>1</script>",
        '<text onclick="x()">a</text>',
        '<use href="https://a.test/b.svg#c"/>',
        "<style>@import 'a.css';</style>",
        "<foreignObject/>",
    ],
)
def test_a_picture_that_runs_code_or_loads_a_file_is_detected(part: str) -> None:
    svg = draw([Frame(0, ((Run(0, "a", "#fff", is_bold=False),),), "")], 10, "A picture")
    assert problems(svg) == []
    assert problems(svg.replace("<defs>", f"{part}<defs>")) != []


def test_a_program_in_a_terminal_is_recorded(tmp_path: Path) -> None:
    terminal = Terminal(["/bin/sh", "-c", COMMAND], tmp_path, os.environ, (20, 6), "$ demo")
    terminal.wait(lambda screen: "two" in screen)
    terminal.annotate("press x & Enter")
    terminal.close(b"x\n")
    assert terminal.frames[0].lines[0] == (Run(0, "$ demo", "#d7dae0", is_bold=False),)
    assert terminal.frames[-1].lines[2] == (Run(0, "two", "#98c379", is_bold=True),)
    svg = draw(terminal.frames, 20, "A <demo>")
    texts = [element.text for element in ET.fromstring(svg).iter() if element.tag.endswith("text")]
    assert texts == ["$ demo", "one", "two", "press x & Enter"]
    assert problems(svg) == []
