"""The library: where files are found, which one wins, and what each of them says.

Search path: the project, the user's config folder, the library in the package; a file at the same relative path
overrides, YAML config merges key by key. Loads on demand, each file once, and collects the problems of each.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from skillrun.language.configuration import merge
from skillrun.language.definitions import Phase, Protocol, Role, Workflow
from skillrun.language.diagnostics import Problem, Problems
from skillrun.language.document import parse_config, parse_document
from skillrun.language.expressions import Template, compile_string
from skillrun.language.kinds import KINDS
from skillrun.language.parse import Reader, kind_of, parse_phase, parse_protocol, parse_role, parse_workflow
from skillrun.language.picoschema import ShapeSpec, parse_shape
from skillrun.language.roots import Root
from skillrun.language.source import Document, Mapping, Source, plain, read_source

T = TypeVar("T")

FOLDERS: Final = ("workflows", "skills", "roles", "config")
SKILL_KINDS: Final = ("phase", "protocol", "questions", "reference", "template")


@dataclass(frozen=True)
class TextFile:
    """A reference or template: its text as a template, and the shape its frontmatter asks for."""

    name: str
    description: str
    template: Template
    document: Document
    output: ShapeSpec | None = None


@dataclass(frozen=True)
class AgentSkill:
    """An Agent Skill: knowledge put into prompts, never rendered."""

    name: str
    description: str
    body: str


@dataclass(frozen=True)
class Config:
    """A merged config file: its data, and the files it came from with the shipped one last."""

    name: str
    data: dict[str, Any]
    layers: tuple[Mapping, ...]


class Library:
    """What the files on the search path say. Every finding about them is in `problems`."""

    def __init__(self, roots: Iterable[Root]) -> None:
        self.roots = tuple(roots)
        self.problems = Problems()
        self.files: dict[Path, Source] = {}
        self._parsed: dict[tuple[str, str], Any] = {}

    def locate(self, relative: str) -> tuple[Root, Path] | None:
        for root in self.roots:
            path = root.path / relative
            if path.is_file():
                return root, path
        return None

    def names(self, folder: str) -> list[str]:
        """The names of the markdown or YAML files in a folder of any root, sorted."""
        found: set[str] = set()
        for root in self.roots:
            base = root.path / folder
            if base.is_dir():
                found.update(p.stem for p in base.iterdir() if p.suffix in (".md", ".yaml") and not p.name.startswith("."))
        return sorted(found)

    def skills(self) -> list[str]:
        """Every `area/name` below `skills/`, and the Agent Skills by their folder's name."""
        found: set[str] = set()
        for root in self.roots:
            base = root.path / "skills"
            if not base.is_dir():
                continue
            for path in base.glob("*/*.md"):
                found.add(path.parent.name if path.name == "SKILL.md" else f"{path.parent.name}/{path.stem}")
        return sorted(found)

    # one method for each kind of file: None where there is none, or where it cannot be read

    def workflow(self, name: str) -> Workflow | None:
        return self._load("workflow", f"workflows/{name}.md", lambda document, problems: parse_workflow(document, name, problems))

    def role(self, name: str) -> Role | None:
        return self._load("role", f"roles/{name}.md", lambda document, problems: parse_role(document, name, problems))

    def phase(self, name: str) -> Phase | None:
        return self._skill("phase", name, lambda document, problems: parse_phase(document, name, problems))

    def protocol(self, name: str) -> Protocol | None:
        return self._skill("protocol", f"protocols/{name}", lambda document, problems: parse_protocol(document, name, problems))

    def text(self, name: str, kind: str = "template") -> TextFile | None:
        """A reference or template by `area/name`."""

        def parse(document: Document, problems: Problems) -> TextFile | None:
            reader = Reader(document, problems)
            entries = reader.entries(document.front, KINDS[kind])
            template = compile_string(document.body, problems)
            output = parse_shape(entries["output"], problems) if "output" in entries else None
            description = reader.sentence(entries.get("description"))
            return TextFile(name, description, template, document, output) if template else None

        return self._skill(kind, name, parse)

    def bank(self, name: str) -> dict[str, list[dict[str, Any]]] | None:
        """A question bank: group to questions, each a record of id, text and choices."""
        from skillrun.language.banks import parse_bank

        return self._skill("questions", name, lambda document, problems: parse_bank(document, problems))

    def agent_skill(self, name: str) -> AgentSkill | None:
        def parse(document: Document, problems: Problems) -> AgentSkill:
            reader = Reader(document, problems)
            entries = reader.entries(document.front, KINDS["skill"], foreign=True)
            return AgentSkill(name, reader.sentence(entries.get("description")), document.body.value.strip())

        return self._load("skill", f"skills/{name}/SKILL.md", parse)

    def config(self, name: str) -> Config | None:
        """`config/<name>.yaml` of every root, merged; None where no root has it."""
        key = ("config", name)
        if key not in self._parsed:
            layers = []
            for root in self.roots:
                path = root.path / "config" / f"{name}.yaml"
                source = self._source(root, path) if path.is_file() else None
                layer = parse_config(source, self.problems) if source else None
                if layer is not None:
                    layers.append(layer)
            self._parsed[key] = Config(name, merge(layers, self.problems), tuple(layers)) if layers else None
        found: Config | None = self._parsed[key]
        return found

    def kind(self, name: str) -> str | None:
        """The `kind:` of the skill `area/name`, read without parsing the rest."""
        document = self._document(f"skills/{name}.md")
        return plain(document.front.get("kind")) if document and document.front.get("kind") else None

    # loading

    def _skill(self, kind: str, name: str, parse: Callable[[Document, Problems], T | None]) -> T | None:
        def checked(document: Document, problems: Problems) -> T | None:
            return parse(document, problems) if kind_of(document, problems, (kind,)) else None

        return self._load(kind, f"skills/{name}.md", checked)

    def _load(self, kind: str, relative: str, parse: Callable[[Document, Problems], T | None]) -> T | None:
        key = (kind, relative)
        if key not in self._parsed:
            document = self._document(relative)
            self._parsed[key] = parse(document, self.problems) if document is not None else None
        found: T | None = self._parsed[key]
        return found

    def _document(self, relative: str) -> Document | None:
        key = ("document", relative)
        if key not in self._parsed:
            located = self.locate(relative)
            source = self._source(*located) if located else None
            self._parsed[key] = parse_document(source, self.problems) if source else None
        found: Document | None = self._parsed[key]
        return found

    def _source(self, root: Root, path: Path) -> Source | None:
        shown = root.shown + path.relative_to(root.path).as_posix()
        source = read_source(path, shown, self.problems)
        if source is not None:
            self.files[path] = source
        return source


def sorted_problems(problems: Iterable[Problem]) -> list[Problem]:
    return sorted(set(problems))
