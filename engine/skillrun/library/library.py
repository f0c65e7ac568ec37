"""Finds, loads and parses the files on the search path.

Loads each file once, on demand, and collects its problems. The first root that has a file wins; YAML config is merged
key by key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeVar

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
    parse_bank,
    parse_phase,
    parse_protocol,
    parse_text,
    parse_workflow,
)
from skillrun.definitions.roles import parse_agent_skill, parse_role
from skillrun.library.configuration import RENAMES_KEY, apply_renames, merge_by_mode, read_renamed_keys, without_key
from skillrun.library.model_names import ModelNames, check_names
from skillrun.library.models_yaml import Layers, merge_models, sanitize_layers
from skillrun.library.roots import SKILL_FILE, FileIndex, Root, build_file_index
from skillrun.library.subagents import ImportTable
from skillrun.syntax import source as nodes
from skillrun.syntax.diagnostics import ParsingStopped, Problem, Problems
from skillrun.syntax.document import parse_config, parse_document, parse_foreign
from skillrun.syntax.foreign import split_foreign
from skillrun.syntax.reading import decode_source, read_source
from skillrun.syntax.source import MAX_BYTES, MAX_PROSE, Document, Source, to_plain
from skillrun.syntax.yaml import report_rewritten_numbers
from skillrun.types.picoschema import ShapeSpec
from skillrun.types.slugs import make_slug

T = TypeVar("T")
NUMERIC_CONFIGS: Final = ("skillrun", "sizes")  # config of skillrun, where a number such as `0.50` is never text

Stamp = tuple[int, ...]
NO_UNSAVED_FILES: Final[Mapping[Path, str]] = MappingProxyType({})


@dataclass(frozen=True)
class Config:
    """A merged config file.

    The shipped layer is the last of `layers`. `roots` has the name of each layer's root, and `modes` the complete data
    of each mode.
    """

    name: str
    data: dict[str, Any]
    layers: tuple[nodes.Mapping, ...]
    roots: tuple[str, ...] = ()
    modes: Mapping[str, dict[str, Any]] = field(default_factory=dict)


@dataclass
class LoadedFile:
    """A loaded file, with the problems of reading it. `results` has a parsed value and the problems of parsing, keyed
    by purpose."""

    stamp: Stamp
    source: Source | None
    problems: Problems
    results: dict[str, tuple[Any, Problems]] = field(default_factory=dict)


class Library:
    """The files on the search path. The problems found in them are in `problems`."""

    def __init__(
        self, roots: Iterable[Root], previous: Library | None = None, unsaved: Mapping[Path, str] = NO_UNSAVED_FILES
    ) -> None:
        """Open a library.

        Loaded files of `previous` are reused if they have not changed. Texts in `unsaved` replace files on disk.
        """
        self.roots = tuple(roots)
        self.unsaved = unsaved
        self.cached_files: dict[Path, LoadedFile] = dict(previous.cached_files) if previous is not None else {}
        self._stamps: dict[Path, Stamp] = {}
        self.reset()
        self._places: FileIndex = build_file_index(self.roots, unsaved, self.problems)

    def reset(self) -> None:
        """Discard all problems and loaded files."""
        self.problems = Problems()
        self.files: dict[tuple[str, str], Source] = {}  # by root and path
        self.loaded_files: dict[Path, LoadedFile] = {}
        self._configs: dict[str, Config | None] = {}
        self._definitions: dict[tuple[str, str], Any] = {}  # parsed files by kind and path
        self._roles: dict[str, Role] = {}
        self._agent_skills: dict[str, AgentSkill] = {}
        self._import_table: ImportTable | None = None
        self._written_names: dict[str, dict[str, str]] = {}  # names of files by their `name:`, by folder
        self._reported: set[tuple[Path, str]] = set()  # files and purposes whose problems are collected
        self._looked_up: dict[str, tuple[Path, ...]] = {}  # locations by path below a root; empty if missing
        self._listed: dict[str, list[str]] = {}  # names by listed folder
        self._found: dict[str, bool] = {}  # whether a file exists, by its path in the project

    def fork(self) -> Library:
        """Return a library that shares the loaded files, with separate problems."""
        library = copy(self)
        library.reset()
        return library

    def copy_for_thread(self) -> Library:
        """Return a copy for use in another thread. Later lookups in either library do not change the other."""
        library = copy(self)
        for name, value in vars(self).items():
            if isinstance(value, dict | set):
                setattr(library, name, copy(value))
        library.problems = Problems()
        for problem in self.problems:
            library.problems.add(problem)
        return library

    def matches(self, previous: Library) -> bool:
        """Whether everything that `previous` has read, looked up and listed is unchanged in this library."""
        return (
            all(self._paths(relative) == paths for relative, paths in previous._looked_up.items())
            and all(self._names.get(folder, []) == names for folder, names in previous._listed.items())
            and all(self._exists(path) == found for path, found in previous._found.items())
            and all(self.stamp(path) == file.stamp for path, file in previous.loaded_files.items())
        )

    @property
    def project(self) -> Path:
        """The project folder, which is searched first."""
        return self.roots[0].path

    def has_project_file(self, path: str) -> bool:
        """Whether the project has a file or folder at this path, inside or outside of the library's folders."""
        self._found[path] = self._exists(path)
        return self._found[path]

    def _exists(self, path: str) -> bool:
        try:
            return (self.project / path).exists()
        except (OSError, ValueError):  # nothing can have such a path
            return False

    def locate(self, relative: str) -> tuple[Root, Path] | None:
        return next(iter(self._look_up(relative)), None)

    def _look_up(self, relative: str) -> Sequence[tuple[Root, Path]]:
        self._looked_up[relative] = self._paths(relative)
        return self._places.get(relative, ())

    def _paths(self, relative: str) -> tuple[Path, ...]:
        return tuple(path for _, path in self._places.get(relative, ()))

    def project_files(self, part: str) -> list[str]:
        """Return the project's library files in the folder `part` or at the path `part`; `.` returns all files."""
        project = self.roots[0]
        places = (place for places in self._places.values() for place in places)
        names = [path.relative_to(project.path).as_posix() for root, path in places if root is project]
        return names if part == "." else [name for name in names if name == part or name.startswith(f"{part}/")]

    def own_files(self) -> set[str]:
        """Return the paths of the library files in the project and in the user's folder."""
        shipped = self.roots[-1]
        return {path for path, places in self._places.items() if any(root is not shipped for root, _ in places)}

    def overrides(self) -> dict[str, str]:
        """Return the path of each file of the user or the project that replaces a shipped file, keyed by its name in
        the library. Config files are merged, so they replace nothing."""
        shipped = self.roots[-1]
        return {
            name: places[0][0].label + places[0][1].relative_to(places[0][0].path).as_posix()
            for name, places in self._places.items()
            if len(places) > 1 and places[-1][0] is shipped and not name.startswith("config/")
        }

    def looked_up_files(self) -> set[str]:
        """Return the paths that were looked up below the roots, also those that no root has."""
        return set(self._looked_up)

    def names(self, folder: str) -> list[str]:
        """Return the sorted names of the files in a folder of all roots."""
        self._listed[folder] = self._names.get(folder, [])
        return self._listed[folder]

    def skills(self) -> list[str]:
        """Return every `area/name` below `skills/`, and the folder name of each Agent Skill."""
        return self.names("skills")

    @cached_property
    def _names(self) -> dict[str, list[str]]:
        names: dict[str, list[str]] = {}
        skills = []
        for relative in sorted(self._places):
            folder, _, name = relative.rpartition("/")
            names.setdefault(folder, []).append(name.rpartition(".")[0])
            if folder.startswith("skills/"):
                skills.append(relative.removeprefix("skills/").removesuffix(".md").removesuffix("/SKILL"))
        return {**names, "skills": sorted(skills)}

    # one method per kind of file; each returns None if the file is missing or invalid

    def workflow(self, name: str) -> Workflow | None:
        return self._load_definition(f"workflows/{name}.md", name, "workflow", parse_workflow)

    def role(self, name: str) -> Role | None:
        """Return a role, with the tools and the model that its names mean here."""
        if name in self._roles:
            return self._roles[name]
        name = self.file_name("roles", name)
        role = self._load_definition(f"roles/{name}.md", name, "role", parse_role)
        if role is not None and name not in self._roles:
            self._roles[name] = self.import_table.resolve_role(role)
        return self._roles[name] if role is not None else None

    def phase(self, name: str) -> Phase | None:
        return self._load_definition(f"skills/{name}.md", name, "phase", parse_phase)

    def protocol(self, name: str) -> Protocol | None:
        return self._load_definition(f"skills/protocols/{name}.md", name, "protocol", parse_protocol)

    def text(self, name: str, kind: str = "template") -> TextFile | None:
        """Return the reference or template called `area/name`."""
        return self._load_definition(f"skills/{name}.md", name, kind, parse_text)

    def record_shape(self, part: RecordPart) -> ShapeSpec | None:
        """Return the shape of a part of `record:`; None if the part names a template without a shape."""
        text = self.text(part.name) if part.name else None
        return part.shape or (text.output if text is not None else None)

    def bank(self, name: str) -> Bank | None:
        return self._load_definition(f"skills/{name}.md", name, "questions", parse_bank)

    def agent_skill(self, name: str) -> AgentSkill | None:
        name = self.file_name("skills", name)
        skill = self._load_definition(f"skills/{name}/{SKILL_FILE}", name, "skill", parse_agent_skill)
        if skill is not None and name not in self._agent_skills:
            self._agent_skills[name] = self.import_table.resolve_skill(skill)
        return self._agent_skills[name] if skill is not None else None

    def file_name(self, folder: str, name: str) -> str:
        """Return the name of the file of a role or an Agent Skill. If no file has the name, it is that of the file
        whose `name:` means the same."""
        form = "roles/{}.md" if folder == "roles" else "skills/{}/SKILL.md"
        if self.locate(form.format(name)) is not None:
            return name
        if folder not in self._written_names:
            names = self._written_names[folder] = {}
            for other in self.names(folder):
                place = self.locate(form.format(other))
                scratch = Problems.without_limit()
                source = read_source(place[1], "", scratch, MAX_PROSE, place[0].boundary) if place is not None else None
                front = split_foreign(source, scratch) if source is not None else None
                node = front.mapping.get("name") if front is not None else None
                if isinstance(node, nodes.Scalar) and node.value is not None:
                    slug = make_slug(node.as_written)
                    names[slug] = other if slug not in names else ""  # ambiguous
        return self._written_names[folder].get(make_slug(name)) or name

    def loaded_roles(self) -> list[Role]:
        """Return the roles that were loaded so far."""
        return list(self._roles.values())

    @property
    def import_table(self) -> ImportTable:
        """The table that resolves the names of other tools."""
        if self._import_table is None:
            models, table = self.config("models"), self.config("subagents")
            names = ModelNames.of(models.data if models is not None else {})
            self._import_table = ImportTable.of(table.data if table is not None else {}, names)
        return self._import_table

    def config(self, name: str) -> Config | None:
        """Return `config/<name>.yaml`, merged from all roots; None if no root has it."""
        if name not in self._configs:
            places = self._look_up(f"config/{name}.yaml")
            parsed_layers = ((root.name, self._parse_once(root, path, "config", parse_config)) for root, path in places)
            named = tuple((root, layer) for root, layer in parsed_layers if layer is not None)
            self._configs[name] = None
            with suppress(ParsingStopped):
                self._configs[name] = self._merge_config(name, named) if named else None
        return self._configs[name]

    def layers(self, name: str) -> Layers:
        """Return the layers of a config, each with the name of its root, strongest first; empty if no root has it."""
        config = self.config(name)
        return tuple(zip(config.roots, config.layers, strict=True)) if config is not None else ()

    def _merge_config(self, name: str, named: Layers) -> Config:
        if name == "models":
            named = sanitize_layers(named, self.problems)
        roots, layers = tuple(root for root, _ in named), tuple(layer for _, layer in named)
        if name == "models":
            data = merge_models(layers, self.problems)
            check_names(layers, data, self.problems)
            return Config(name, data, layers, roots)
        for layer in layers if name not in NUMERIC_CONFIGS else ():
            report_rewritten_numbers(layer, self.problems, "warning")
        # A copy of the whole file contains the renames too. All renames are checked, but only the shipped ones apply.
        *_, renames = [read_renamed_keys(layer, self.problems) for layer in layers]
        layers = tuple(without_key(layer, RENAMES_KEY) for layer in layers)
        layers = (*(apply_renames(layer, renames, self.problems) for layer in layers[:-1]), layers[-1])
        data, modes = merge_by_mode(layers, self.problems)
        return Config(name, data, layers, roots, modes)

    def skill(self, name: str) -> Document | None:
        """Return the file of the skill `area/name`, whatever its kind."""
        return self._document(f"skills/{name}.md")

    def kind(self, name: str) -> str | None:
        """Return the `kind` that the file of the skill `area/name` declares."""
        document = self.skill(name)
        node = document.frontmatter.get("kind") if document is not None else None
        return str(to_plain(node)) if node is not None else None

    def is_part_of_skill(self, name: str) -> bool:
        """Whether the file `area/name` is in the folder of an Agent Skill, so that it is text for models."""
        place, skill = self.locate(f"skills/{name}.md"), self.locate(f"skills/{name.partition('/')[0]}/{SKILL_FILE}")
        return place is not None and skill is not None and place[1].parent == skill[1].parent

    # loading

    def _load_definition(
        self, relative: str, name: str, kind: str, parse: Callable[[Document, str, Problems], T | None]
    ) -> T | None:
        """Return a parsed file from the cache, or parse it. Files of some kinds must declare their kind."""
        if (kind, relative) not in self._definitions:
            place, document = self.locate(relative), self._document(relative)

            def parse_checked_kind(_: Source, problems: Problems) -> T | None:
                if document is None or (kind in SKILL_KINDS and not check_kind(document, kind, problems)):
                    return None
                return parse(document, name, problems)

            parsed = self._parse_once(*place, f"{kind} ", parse_checked_kind) if place is not None else None
            self._definitions[kind, relative] = parsed
        definition: T | None = self._definitions[kind, relative]
        return definition

    def _document(self, relative: str) -> Document | None:
        place = self.locate(relative)
        foreign = relative.startswith("roles/") or relative.endswith(f"/{SKILL_FILE}")
        return self._parse_once(*place, "document", parse_foreign if foreign else parse_document) if place else None

    def _parse_once(
        self, root: Root, path: Path, purpose: str, parse: Callable[[Source, Problems], T | None]
    ) -> T | None:
        """Return the result of `parse` for a file's source. A file is parsed once for each purpose."""
        file = self._file(root, path)
        if file.source is None:
            return None
        if purpose not in file.results:
            problems = Problems()
            parsed = None
            with suppress(ParsingStopped):
                parsed = parse(file.source, problems)
            file.results[purpose] = parsed, problems
        value: T | None = file.results[purpose][0]
        if (path, purpose) not in self._reported:
            self._reported.add((path, purpose))
            self._collect(file.results[purpose][1])
        return value

    def _file(self, root: Root, path: Path) -> LoadedFile:
        if path not in self.loaded_files:
            relative = path.relative_to(root.path).as_posix()
            file, stamp = self.cached_files.get(path), self.stamp(path)  # the stamp of a later save would hide the save
            if file is None or file.stamp != stamp:
                problems, label = Problems(), root.label + relative
                most = MAX_PROSE if path.suffix == ".md" else MAX_BYTES
                if path in self.unsaved:
                    source = decode_source(self.unsaved[path].encode("utf-8", "replace"), path, label, problems, most)
                else:
                    source = read_source(path, label, problems, most, root.boundary)
                file = self.cached_files[path] = LoadedFile(stamp, source, problems)
            self.loaded_files[path] = file
            if file.source is not None:
                self.files[root.name, relative] = file.source
            self._collect(file.problems)
        return self.loaded_files[path]

    def stamp(self, path: Path) -> Stamp:
        """Return a value that changes when the file changes. Cached."""
        if path not in self._stamps:
            self._stamps[path] = ()
            if path in self.unsaved:
                self._stamps[path] = (hash(self.unsaved[path]),)
            else:
                with suppress(OSError):
                    stat = path.stat()
                    self._stamps[path] = stat.st_mtime_ns, stat.st_size, stat.st_ino
        return self._stamps[path]

    def _collect(self, problems: Iterable[Problem]) -> None:
        for problem in problems:
            self.problems.add(problem)
