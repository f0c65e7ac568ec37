"""`docs/architecture.md`: the files that it names are there, and so is in each what it says of it."""

import re
from pathlib import Path

import pytest

import skillrun

PACKAGE = Path(skillrun.__file__).parent
PAGE = (Path(__file__).parents[2] / "docs" / "architecture.md").read_text(encoding="utf-8")
BEFORE_GLOSSARY, GLOSSARY = PAGE.split("\n## Glossary\n")
ROWS = [line.split("|")[1:3] for line in GLOSSARY.splitlines() if re.match(r"\| (?!room|---)", line)]
CONCEPTS = [(room.strip(), part) for room, cell in ROWS for part in cell.split(" · ")]


def paths(text: str) -> list[str]:
    """What stands in backquotes and is a path; one without a folder is in that of the one before it."""
    found: list[str] = []
    for name in re.findall(r"`([\w/]+(?:\.py|/))`", text):
        found.append(name if "/" in name else f"{found[-1].rpartition('/')[0]}/{name}")
    return found


@pytest.mark.parametrize("path", sorted({*paths(BEFORE_GLOSSARY), *paths(GLOSSARY)}))
def test_what_it_names_is_there(path: str) -> None:
    assert (PACKAGE / path).exists()


@pytest.mark.parametrize(("room", "part"), CONCEPTS)
def test_a_concept_stands_in_its_file(room: str, part: str) -> None:
    (path,) = paths(part)
    text = (PACKAGE / path).read_text(encoding="utf-8")
    names = re.findall(r"\*\*(\w+)\*\*", part)
    assert room in path.split("/") or room in ("runtime", "check")
    assert names
    for name in names:
        assert re.search(rf"^(class {name}\b|{name}\b.* = )" if name[0].isupper() else rf"\b{name}", text, re.MULTILINE)


def test_it_names_every_room_and_counts_what_it_lists() -> None:
    rooms = {init.parent.name for init in PACKAGE.rglob("__init__.py")} - {"skillrun", "disk", "postgres", "verbs"}
    assert rooms <= set(re.findall(r"\w+", BEFORE_GLOSSARY.split("```")[1]))
    counted = re.search(r"(\d+) now, (\d+) before.*?\((\d+) came, (\d+) went\)", PAGE)
    assert counted is not None
    now, before, came, went = map(int, counted.groups())
    assert now == sum(len(re.findall(r"\*\*\w+\*\*", part)) for _, part in CONCEPTS)
    assert before == now - came + went
