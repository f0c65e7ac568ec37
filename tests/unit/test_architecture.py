"""`docs/architecture.md` names files that exist, concepts that those files define, and every package."""

import re
from pathlib import Path

import pytest

import skillrun

PACKAGE = Path(skillrun.__file__).parent
PAGE = (Path(__file__).parents[2] / "docs" / "architecture.md").read_text(encoding="utf-8")
BEFORE_GLOSSARY, GLOSSARY = PAGE.split("\n## Glossary\n")
ROWS = [line.split("|")[1:3] for line in GLOSSARY.splitlines() if re.match(r"\| (?!package|---)", line)]
CONCEPTS = [(package.strip(), part) for package, cell in ROWS for part in cell.split(" · ")]
MAX_CORE_CONCEPTS = 60


def paths(text: str) -> list[str]:
    return re.findall(r"`([\w/]+(?:\.py|/))`", text)


@pytest.mark.parametrize("path", sorted({*paths(BEFORE_GLOSSARY), *paths(GLOSSARY)} - {"engine/skillrun/"}))
def test_every_named_path_exists(path: str) -> None:
    assert (PACKAGE / path).exists()


@pytest.mark.parametrize(("package", "part"), CONCEPTS)
def test_a_concept_is_defined_in_its_file(package: str, part: str) -> None:
    (path,) = paths(part)
    text = (PACKAGE / path).read_text(encoding="utf-8")
    names = re.findall(r"\*\*(\w+)\*\*", part)
    assert path.split("/")[0] == package
    assert names
    for name in names:
        assert re.search(rf"^(class {name}\b|{name}\b.* = )", text, re.MULTILINE)


def test_the_page_names_every_package() -> None:
    packages = {init.parent for init in PACKAGE.rglob("__init__.py")} - {PACKAGE}
    top_level = {path.name for path in packages if path.parent == PACKAGE or path.parent.name == "extensions"}
    assert top_level <= set(re.findall(r"\w+", BEFORE_GLOSSARY))


def test_the_core_has_at_most_60_concepts() -> None:
    assert len(re.findall(r"\*\*\w+\*\*", GLOSSARY)) <= MAX_CORE_CONCEPTS


@pytest.mark.row("Z7")
@pytest.mark.finding("FS1", "FS3")
def test_given_inputs_are_made_in_two_places() -> None:
    texts = {path.relative_to(PACKAGE).as_posix(): path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    made = {name for name, text in texts.items() if "GivenInputs(" in text}
    granted = {name for name, text in texts.items() if re.search(r"(?<!def )grant_inputs\(", text)}
    assert made == {"cli/run_request.py", "store/seal.py"}
    assert granted == {"cli/run_request.py", "cli/render.py", "cli/resume.py"}
