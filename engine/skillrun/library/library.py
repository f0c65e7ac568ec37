"""The library: where files are found, which one wins, and what each of them says.

Loads on demand, each file once, and collects the problems of each. The first root that has a file wins; YAML config
merges key by key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

from skillrun.definitions.definitions import (
    SKILL_KINDS,
    AgentSkill,
    Phase,
    Protocol,
    RecordPart,
    Role,
    TextFile,
    Workflow,
)
from skillrun.definitions.parse import (
    Bank,
    check_kind,
    parse_agent_skill,
    parse_bank,
    parse_phase,
    parse_protocol,
    parse_role,
    parse_text,
    parse_workflow,
)
from skillrun.library.configuration import without
from skillrun.library.listing import Places, places_of
from skillrun.library.model_names import check_names
from skillrun.library.models_yaml import Layers, merged_models, vetted
from skillrun.library.modes import merge_by_mode
from skillrun.library.renamed_keys import WAS, in_new_places, moves_of
from skillrun.library.roots import Root
from skillrun.syntax import source as nodes
from skillrun.syntax.diagnostics import GivenUp, Problem, Problems
from skillrun.syntax.document import parse_config, parse_document, parse_foreign
from skillrun.syntax.reading import read_source, source_of
from skillrun.syntax.source import MAX_BYTES, MAX_PROSE, Document, Source, plain
from skillrun.types.picoschema import ShapeSpec

T = TypeVar("T")

Stamp = tuple[int, ...]
NOTHING_UNSAVED: Final[Mapping[Path, str]] = MappingProxyType({})


@dataclass(frozen=True)
class Config:
    """A merged config file: its data, and the files it came from with the shipped one last; whose each is.

    `modes` has the data as it is in each mode, all of it.
    """

    name: str
    data: dict[str, Any]
    layers: tuple[nodes.Mapping, ...]
    roots: tuple[str, ...] = ()
    modes: Mapping[str, dict[str, Any]] = field(default_factory=dict)


class Made(NamedTuple):
    """What was made of a file, and what is wrong with it."""

    value: Any
    problems: Problems


@dataclass
class ReadFile:
    """A file as it was read: what it was then, what has been made of it, and why it cannot be read."""

    stamp: Stamp
    source: Source | None
    problems: Problems
    made: dict[str, Made] = field(default_factory=dict)


class Library:
    """What the files on the search path say. Every finding about them is in `problems`."""

    def __init__(
        self, roots: Iterable[Root], earlier: Library | None = None, unsaved: Mapping[Path, str] = NOTHING_UNSAVED
    ) -> None:
        """What has not changed since `earlier` read it is taken from there; `unsaved` is read instead of the disk."""
        self.roots = tuple(roots)
        self.unsaved = unsaved
        self.pool: dict[Path, ReadFile] = dict(earlier.pool) if earlier is not None else {}
        self._stamps: dict[Path, Stamp] = {}
        self.begin()
        self._places: Places = places_of(self.roots, unsaved, self.problems)

    def begin(self) -> None:
        """Begin without problems, as if nothing had been read."""
        self.problems = Problems()
        self.files: dict[tuple[str, str], Source] = {}  # by root and path
        self.read: dict[Path, ReadFile] = {}
        self._configs: dict[str, Config | None] = {}
        self._found: dict[tuple[str, str], Any] = {}  # by kind and path, what was made of a file
        self._told: set[tuple[Path, str]] = set()  # whose problems are among these
        self._looked_up: dict[str, tuple[Path, ...]] = {}  # by path below a root, whether there is anything or not
        self._listed: dict[str, list[str]] = {}  # the names in each folder that was listed

    def apart(self) -> Library:
        """A library of the same files, as they are in this one, each read once for both; its problems are its own."""
        library = copy(self)
        library.begin()
        return library

    def for_a_thread(self) -> Library:
        """This library as it stands, for one thread: what is looked up from now on in one of the two is its own."""
        library = copy(self)
        for name, value in vars(self).items():
            if isinstance(value, dict | set):
                setattr(library, name, copy(value))
        library.problems = Problems()
        for problem in self.problems:
            library.problems.add(problem)
        return library

    def holds(self, earlier: Library) -> bool:
        """Whether all that an earlier library has read, looked up and listed is the same in this one."""
        return (
            all(self._paths(relative) == paths for relative, paths in earlier._looked_up.items())
            and all(self._list(folder) == names for folder, names in earlier._listed.items())
            and all(self._stamp(path) == file.stamp for path, file in earlier.read.items())
        )

    @property
    def project(self) -> Path:
        """The folder of the project: the first that is searched."""
        return self.roots[0].path

    def locate(self, relative: str) -> tuple[Root, Path] | None:
        return next(iter(self._look_up(relative)), None)

    def _look_up(self, relative: str) -> Sequence[tuple[Root, Path]]:
        self._looked_up[relative] = self._paths(relative)
        return self._places.get(relative, ())

    def _paths(self, relative: str) -> tuple[Path, ...]:
        return tuple(path for _, path in self._places.get(relative, ()))

    def own(self, part: str) -> list[str]:
        """The files of the project that count, in a part of it: a folder, or a file; all of them for `.`."""
        own = [name for name, places in self._places.items() if any(root is self.roots[0] for root, _ in places)]
        return own if part == "." else [name for name in own if name == part or name.startswith(f"{part}/")]

    def names(self, folder: str) -> list[str]:
        """The names of the files in a folder of any root, sorted."""
        self._listed[folder] = self._list(folder)
        return self._listed[folder]

    def skills(self) -> list[str]:
        """Every `area/name` below `skills/`, and the Agent Skills by their folder's name."""
        return self.names("skills")

    def _list(self, folder: str) -> list[str]:
        return self._skills if folder == "skills" else self._names.get(folder, [])

    @cached_property
    def _skills(self) -> list[str]:
        below = (
            path.removeprefix("skills/").removesuffix(".md") for path in self._places if path.startswith("skills/")
        )
        return sorted(name.removesuffix("/SKILL") for name in below)

    @cached_property
    def _names(self) -> dict[str, list[str]]:
        names: dict[str, list[str]] = {}
        for relative in sorted(self._places):
            folder, _, name = relative.rpartition("/")
            names.setdefault(folder, []).append(name.rpartition(".")[0])
        return names

    # one method for each kind of file: None where there is none, or where it cannot be read

    def workflow(self, name: str) -> Workflow | None:
        return self._parsed(f"workflows/{name}.md", name, "workflow", parse_workflow)

    def role(self, name: str) -> Role | None:
        return self._parsed(f"roles/{name}.md", name, "role", parse_role)

    def phase(self, name: str) -> Phase | None:
        return self._parsed(f"skills/{name}.md", name, "phase", parse_phase)

    def protocol(self, name: str) -> Protocol | None:
        return self._parsed(f"skills/protocols/{name}.md", name, "protocol", parse_protocol)

    def text(self, name: str, kind: str = "template") -> TextFile | None:
        """A reference or template by `area/name`."""
        return self._parsed(f"skills/{name}.md", name, kind, parse_text)

    def record_shape(self, part: RecordPart) -> ShapeSpec | None:
        """The shape that a part of `record:` is; None where the template that it names has none."""
        text = self.text(part.name) if part.name else None
        return part.shape or (text.output if text is not None else None)

    def bank(self, name: str) -> Bank | None:
        return self._parsed(f"skills/{name}.md", name, "questions", parse_bank)

    def agent_skill(self, name: str) -> AgentSkill | None:
        return self._parsed(f"skills/{name}/SKILL.md", name, "skill", parse_agent_skill)

    def config(self, name: str) -> Config | None:
        """`config/<name>.yaml` of every root, merged; None where no root has it."""
        if name not in self._configs:
            places = self._look_up(f"config/{name}.yaml")
            made = ((root.name, self._made(root, path, "config", parse_config)) for root, path in places)
            named = tuple((root, layer) for root, layer in made if layer is not None)
            self._configs[name] = self._merged(name, named) if named else None
        return self._configs[name]

    def _merged(self, name: str, named: Layers) -> Config | None:
        try:
            if name == "models":
                return self._models(named)
            roots, (*others, shipped) = (root for root, _ in named), (layer for _, layer in named)
            moves = moves_of(shipped, self.problems)
            for layer in others:  # a copy of the whole file has them, too; those of the shipped one count
                moves_of(layer, self.problems)
            present = (without(layer, WAS) for layer in others)
            layers = (*(in_new_places(layer, moves, self.problems) for layer in present), without(shipped, WAS))
            data, modes = merge_by_mode(layers, self.problems)
            return Config(name, data, layers, tuple(roots), modes)
        except GivenUp:
            return None

    def _models(self, named: Layers) -> Config:
        named = vetted(named, self.problems)
        roots, layers = tuple(root for root, _ in named), tuple(layer for _, layer in named)
        data = merged_models(layers, self.problems)
        check_names(layers, data, self.problems)
        return Config("models", data, layers, roots)

    def skill(self, name: str) -> Document | None:
        """The file of the skill `area/name`, of whatever kind."""
        return self._document(f"skills/{name}.md")

    def kind(self, name: str) -> str | None:
        """What the file of the skill `area/name` says it is."""
        document = self.skill(name)
        node = document.front.get("kind") if document is not None else None
        return str(plain(node)) if node is not None else None

    # loading

    def _parsed(
        self, relative: str, name: str, kind: str, parse: Callable[[Document, str, Problems], T | None]
    ) -> T | None:
        """What is made of a file that says it is of the kind; files of some kinds need not say it. Looked up once."""
        if (kind, relative) not in self._found:
            self._found[kind, relative] = self._made_of_kind(relative, name, kind, parse)
        parsed: T | None = self._found[kind, relative]
        return parsed

    def _made_of_kind(
        self, relative: str, name: str, kind: str, parse: Callable[[Document, str, Problems], T | None]
    ) -> T | None:
        place, document = self.locate(relative), self._document(relative)

        def parsed(_: Source, problems: Problems) -> T | None:
            if document is None or (kind in SKILL_KINDS and not check_kind(document, kind, problems)):
                return None
            return parse(document, name, problems)

        return self._made(*place, f"{kind} ", parsed) if place is not None else None

    def _document(self, relative: str) -> Document | None:
        place = self.locate(relative)
        foreign = relative.startswith("roles/") or relative.endswith("/SKILL.md")
        return self._made(*place, "document", parse_foreign if foreign else parse_document) if place else None

    def _made(self, root: Root, path: Path, what: str, make: Callable[[Source, Problems], T | None]) -> T | None:
        """What `make` makes of a file's source, made once."""
        file = self._file(root, path)
        if file.source is None:
            return None
        if what not in file.made:
            problems = Problems()
            try:
                file.made[what] = Made(make(file.source, problems), problems)
            except GivenUp:
                file.made[what] = Made(None, problems)
        made = file.made[what]
        if (path, what) not in self._told:
            self._told.add((path, what))
            self._collect(made.problems)
        value: T | None = made.value
        return value

    def _file(self, root: Root, path: Path) -> ReadFile:
        if path not in self.read:
            relative = path.relative_to(root.path).as_posix()
            file = self.pool.get(path)
            if file is None or file.stamp != self._stamp(path):
                stamp, problems = self._stamp(path), Problems()
                file = ReadFile(stamp, self._source(root, path, root.label + relative, problems), problems)
                self.pool[path] = file
            self.read[path] = file
            if file.source is not None:
                self.files[root.name, relative] = file.source
            self._collect(file.problems)
        return self.read[path]

    def _source(self, root: Root, path: Path, label: str, problems: Problems) -> Source | None:
        most = MAX_PROSE if path.suffix == ".md" else MAX_BYTES
        if path in self.unsaved:
            return source_of(self.unsaved[path].encode("utf-8", "replace"), path, label, problems, most)
        return read_source(path, label, problems, most, root.inside)

    def _stamp(self, path: Path) -> Stamp:
        """What is another one as soon as the file is; looked at once."""
        if path not in self._stamps:
            self._stamps[path] = _stamp(path) if path not in self.unsaved else (hash(self.unsaved[path]),)
        return self._stamps[path]

    def _collect(self, problems: Iterable[Problem]) -> None:
        for problem in problems:
            self.problems.add(problem)


def _stamp(path: Path) -> Stamp:
    try:
        stat = path.stat()
    except OSError:
        return ()
    return stat.st_mtime_ns, stat.st_size, stat.st_ino
