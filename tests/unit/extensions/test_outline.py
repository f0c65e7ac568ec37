"""Outlines of source files, texts and folders, and of hostile files."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillrun.extensions.outline import parser_process
from skillrun.extensions.outline.grammars import _BY_EXTENSION, PYTHON, Grammar, detect_grammar
from skillrun.extensions.outline.parser import DefinitionParser
from skillrun.repository.definitions import MAX_FILE, NoOutline, find_headings
from skillrun.repository.outline import build_outline
from skillrun.repository.results import MAX_RESULT
from tests.unit.repository.test_repository import SECRET, ask

SOURCES = {
    "a.py": (
        (
            "import os\n\n@cache\nclass A(Base):\n    x = 1\n    async def one(\n"
            "        self, b: int,\n    ) -> None:  # why\n"
            "        def inner(): ...\n\nif os:\n    def two(): ...\n"
        ),
        ["3-9 class A(Base)", "  6-9 async def one(self, b: int) -> None", "12 def two()"],
    ),
    "a.js": (
        (
            "class A { one() {} }\nfunction two(a) {\n}\nconst three = (b) => 1\napp.use = function four() {}\n"
            "x.map(() => { const y = 1 })\nmodule.exports = { five: async () => {} }\n"
        ),
        [
            "1 class A",
            "  1 one()",
            "2-3 function two(a)",
            "4 three = (b)",
            "5 app.use = function four()",
            "7 five: async ()",
        ],
    ),
    "a.ts": (
        (
            "export interface A { b: string }\ntype B = string\nenum C { D }\n"
            "abstract class E<T> { abstract f(): void }\n"
            "namespace G { export function h(i: number): void {} }\n"
        ),
        [
            "1 interface A",
            "2 type B = string",
            "3 enum C",
            "4 abstract class E<T>",
            "  4 abstract f(): void",
            "5 namespace G",
            "  5 function h(i: number): void",
        ],
    ),
    "a.tsx": ("const A = () => <div/>\n", ["1 A = ()"]),
    "a.go": (
        "package a\ntype S struct {\n\tx int\n}\nfunc (s *S) Run() error {\n\treturn nil\n}\nfunc main() {}\n",
        ["2-4 S struct", "5-7 func (s *S) Run() error", "8 func main()"],
    ),
    "a.rs": (
        (
            "pub struct S { x: u8 }\nimpl T for S {\n    fn one(&self) -> u8 { 1 }\n}\n"
            "mod tests { fn two() {} }\ntrait U { fn v(); }\n"
        ),
        [
            "1 pub struct S",
            "2-4 impl T for S",
            "  3 fn one(&self) -> u8",
            "5 mod tests",
            "  5 fn two()",
            "6 trait U",
            "  6 fn v();",
        ],
    ),
    "A.java": (
        (
            "public class A implements B {\n  A() {}\n"
            "  @Override public int one(int x) { return x; }\n}\ninterface C { void d(); }\n"
        ),
        [
            "1-4 public class A implements B",
            "  2 A()",
            "  3 @Override public int one(int x)",
            "5 interface C",
            "  5 void d();",
        ],
    ),
    "a.c": (
        "struct s { int x; };\ntypedef struct { int y; } t;\nenum e { F };\nstatic int one(int a)\n{\n  return a;\n}\n",
        ["1 struct s", "2 typedef struct", "3 enum e", "4-7 static int one(int a)"],
    ),
    "a.cpp": (
        (
            "namespace n {\nclass C : public B {\n  void one();\n"
            "  int two() const { return 1; }\n};\n}\nvoid n::C::one() {}\n"
        ),
        [
            "1-6 namespace n",
            "  2-5 class C : public B",
            "    3 void one();",
            "    4 int two() const",
            "7 void n::C::one()",
        ],
    ),
    "a.cs": (
        "namespace N { class A : B { public A() {} public int One(int x) => x; } enum E { F } }\n",
        ["1 namespace N", "  1 class A : B", "    1 public A()", "    1 public int One(int x)", "  1 enum E"],
    ),
    "a.rb": (
        "module M\n  class A < B\n    def one(x)\n    end\n    def self.two; end\n  end\nend\n",
        ["1-7 module M", "  2-6 class A < B", "    3-4 def one(x)", "    5 def self.two; end"],
    ),
    "a.php": (
        "<?php\nclass A extends B {\n  public function one($x) {}\n}\nfunction two() {}\n",
        ["2-4 class A extends B", "  3 public function one($x)", "5 function two()"],
    ),
    "a.sh": ("one() {\n  :\n}\nfunction two { :; }\n", ["1-3 one()", "4 function two"]),
}


@pytest.mark.parametrize("name", SOURCES)
def test_definitions_of_each_language_are_shown_with_their_lines(tmp_path: Path, name: str) -> None:
    text, lines = SOURCES[name]
    (tmp_path / name).write_text(text)
    title, *outline = ask(tmp_path, "Outline", path=name).split("\n")
    assert title == f"{name} ({text.count(chr(10))} line{'s' if text.count(chr(10)) > 1 else ''})"
    assert outline == lines


def test_every_grammar_parses_empty_and_broken_files() -> None:
    with DefinitionParser(time.monotonic() + 30) as parser:
        for extension in {grammar: extension for extension, grammar in _BY_EXTENSION.items()}.values():
            assert parser.definitions(f"a.{extension}", b"") == []
            parser.definitions(f"a.{extension}", b"class A { def (((\n\xff\xfe \x80 }}}} function")
        broken = b"class A:\n    def one(self):\n        return (\n\n    def two(self):\n        pass\n"
        assert [definition.header[:12] for definition in parser.definitions("a.py", broken)][:2] == [
            "class A",
            "def one(self",
        ]


def test_a_script_without_an_extension_is_detected_by_its_first_line() -> None:
    assert detect_grammar("bin/run", b"#!/usr/bin/env python3\n") is PYTHON
    assert detect_grammar("bin/run", b"#!/usr/bin/env -S uv run\n") is None
    assert detect_grammar("bin/run", b"#!/bin/bash -e\n") is _BY_EXTENSION["sh"]
    assert detect_grammar(".python", b"") is None


def test_headings_are_the_outline_of_a_text(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(
        "# One\ntext\n## Two\n```sh\n# no heading\n```\nThree\n-----\n#hashtag\n# Four #\n- item\n---\n"
    )
    assert ask(tmp_path, "Outline", path="a.md").split("\n")[1:] == [
        "1-9 One",
        "  3-6 Two",
        "  7-9 Three",
        "10-12 Four",
    ]
    (tmp_path / "a.rst").write_text("=====\nTitle\n=====\n\nPart\n----\ntext\n\nSmaller\n~~~~~~~\n\nOther\n-----\n")
    assert ask(tmp_path, "Outline", path="a.rst").split("\n")[1:] == [
        "2-13 Title", "  5-11 Part", "    9-11 Smaller", "  12-13 Other"
    ]  # fmt: skip


@given(st.lists(st.text("#=-~`ab ", max_size=8)), st.booleans())
def test_headings_are_ordered_and_nested(lines: list[str], is_markdown: bool) -> None:
    headings = find_headings(lines, is_markdown=is_markdown)
    assert [heading.first for heading in headings] == sorted({heading.first for heading in headings})
    for heading in headings:
        assert 1 <= heading.first <= heading.last <= len(lines)
        inside = [other for other in headings if heading.first < other.first <= heading.last]
        assert all(other.depth > heading.depth and other.last <= heading.last for other in inside)


def test_a_file_without_an_outline_gets_an_explanation(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("a: 1\n")
    (tmp_path / "a.py").write_text("a = 1\n")
    (tmp_path / "a.md").write_text("text\n")
    (tmp_path / "a.bin").write_bytes(b"\0")
    answers = [ask(tmp_path, "Outline", path=f"a.{extension}") for extension in ("yaml", "py", "md", "bin", "gone")]
    assert answers[0].startswith(
        "error: `a.yaml` has 1 line and no outline: outlines are not supported for `.yaml`, only for .py, "
    )
    assert answers[1:] == [
        "error: `a.py` has 1 line and no outline: it has no definitions; use Read or Grep",
        "error: `a.md` has 1 line and no outline: it has no headings; use Read or Grep",
        "error: `a.bin` is a binary file",
        "error: there is no `a.gone`",
    ]


@pytest.mark.slow
def test_the_outline_of_a_folder_has_the_detail_that_fits_and_most_for_code(tmp_path: Path) -> None:
    code = "".join(f"class C{n}:\n    def method_{n}(self, one, two): ...\n" for n in range(3))
    for name in ("src/a.py", "src/b.py", "tests/test_a.py", "tests/test_b.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(code)
    (tmp_path / "README.md").write_text("# Title\n## Part\n")
    (tmp_path / "logo.png").write_bytes(b"\0")
    outline = ask(tmp_path, "Outline").split("\n")
    assert outline[:3] == ["src/a.py (6 lines)", "  1-2 class C0", "    2 def method_0(self, one, two)"]
    note = "(other texts: top level only; Outline of a file or a narrower folder shows more)"
    assert outline[-3:] == ["README.md (2 lines)", "  1-2 Title", note]
    for number in range(60):
        (tmp_path / "src" / f"more{number:02}.py").write_text(code.replace("class C", f"class More{number}Of"))
    names = ask(tmp_path, "Outline").split("\n")
    assert len("\n".join(names)) <= MAX_RESULT
    assert names[0] == "src/a.py (6 lines): class C0 1 (method_0 2), class C1 3 (method_1 4), class C2 5 (method_2 6)"
    assert names[-3:-1] == ["tests/test_b.py (6 lines): class C0 1, class C1 3, class C2 5", "./: README.md 2"]
    assert names[-1].startswith("(code: names and line numbers only; tests: top-level names and line numbers only; ")
    assert "README" not in ask(tmp_path, "Outline", glob="*.py")
    assert "logo" not in "".join(names)
    assert ask(tmp_path, "Outline", glob="*.zig") == "(no files)"


def test_for_too_many_files_only_folders_are_counted(tmp_path: Path) -> None:
    for number in range(450):
        folder = tmp_path / ("one" if number % 3 else "two/deep")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.py").touch()
    assert ask(tmp_path, "Outline").split("\n") == [
        "(450 files are too many to outline at once; by folder:)", "one/  300 files", "two/deep/  150 files"
    ]  # fmt: skip


@pytest.mark.row("Z3", "Z5")
@pytest.mark.finding("FZ12")
def test_outlines_and_sizes_reveal_nothing_about_withheld_files(tmp_path: Path) -> None:
    (tmp_path / "next-door").mkdir()
    (tmp_path / "next-door" / "far.py").write_text(f"def {SECRET.replace(' ', '_')}(): ...\n")
    root = tmp_path / "root"
    for name in (".env/keys.py", "build/made.py", ".git/hooks.py", "node_modules/a.js", "conf/id_rsa", "conf/open.py"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("def withheld(): ...\n" if "open" not in name else "def open(): ...\n")
    (root / ".gitignore").write_text("build/\n")
    (root / "link.py").symlink_to(tmp_path / "next-door" / "far.py")
    (root / "linked.py").symlink_to(".env/keys.py")
    assert ask(root, "List") == ".gitignore  1 line\nconf/  1 file"
    assert ask(root, "Outline") == "./: .gitignore 1\nconf/open.py (1 line)\n  1 def open()"
    assert ask(root, "Grep", pattern="withheld|secret") == "(no hits)"
    for path in (".env/keys.py", "build/made.py", "linked.py", ".env", "build"):
        for tool in ("Outline", "List"):
            assert "is withheld: " in ask(root, tool, path=path)
    assert ask(root, "Outline", path="link.py").startswith("error: `link.py` leads out of its folder")


HOSTILE = {
    "deep.py": b"(" * 5_000,
    "blocks.py": b"".join(b" " * n + b"if 1:\n" for n in range(300)),
    "classes.py": b"".join(b" " * n + b"class A:\n" for n in range(300)),
    "deep.js": b"[" * 5_000 + b"()=>{" * 2_000,
    "tags.tsx": b"<a>" * 4_000,
    "quotes.sh": b'$(`"' * 1_000,
    "heredocs.rb": b"<<A\n" * 2_000,
    "halves.py": bytes(range(1, 256)) * 200,
    "many.py": b"def f(): ...\n" * 5_000,
    "wide.c": b"int " + b"a" * 900_000 + b"(void) {}",
    "lines.md": b"#\n=\n" * 200_000,
    "under.rst": b"a\n===\n" * 100_000,
}


@pytest.mark.slow
@pytest.mark.row("Z6")
def test_a_hostile_file_has_a_bounded_outline(tmp_path: Path) -> None:
    for name, content in HOSTILE.items():
        (tmp_path / name).write_bytes(content)
    answers = [ask(tmp_path, "Outline", path=name) for name in HOSTILE] + [ask(tmp_path, "Outline")]
    for answer in answers:
        assert 0 < len(answer) <= MAX_RESULT + 300
        assert all(line.isprintable() for line in answer.split("\n"))
    assert answers[list(HOSTILE).index("many.py")].startswith("many.py (5,000 lines, the first 2,000 definitions)\n")


def test_a_file_that_crashes_the_parser_affects_only_its_own_outline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a.py", "b.py", "c.py"):
        (tmp_path / name).write_text(f"def {name[0]}(): ...\n")
    source = (
        Path(parser_process.__file__)
        .read_text()
        .replace(
            "        reply =",
            "        if b'def b' in content:\n            signal.raise_signal(11)\n        reply =",
            1,
        )
    )
    program = tmp_path.parent / f"{tmp_path.name}.py"
    program.write_text(source)
    monkeypatch.setattr(parser_process, "__file__", str(program))
    first, _, failed, *_ = outline = ask(tmp_path, "Outline").split("\n")
    assert (first, failed) == ("a.py (1 line)", "b.py (1 line): no outline, the parser failed on this file")
    assert outline[3:] == ["c.py (1 line)", "  1 def c()"]
    message = "error: `b.py` has 1 line and no outline: the parser failed on this file; use Read or Grep"
    assert ask(tmp_path, "Outline", path="b.py") == message
    assert ask(tmp_path, "Grep", pattern="def b") == "b.py\n1:def b(): ..."


def test_without_a_parser_process_files_are_found_and_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    (tmp_path / "a.py").write_text("def a(): ...\n")
    (tmp_path / "b.md").write_text("# A def\n")
    assert ask(tmp_path, "Grep", pattern="def") == "a.py\n1:def a(): ...\nb.md\n1:# A def"
    first, *rest = ask(tmp_path, "Outline").split("\n")
    assert first == "a.py (1 line): no outline, the parser cannot be started"
    assert rest[:2] == ["b.md (1 line)", "  1 A def"]


def test_the_parser_stops_after_a_timeout_or_repeated_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    with DefinitionParser(time.monotonic() - 1) as parser, pytest.raises(TimeoutError):
        parser.definitions("a.py", b"")
    with DefinitionParser(time.monotonic() + 30) as parser:
        assert build_outline(parser, "a.md", b"x" * (MAX_FILE + 1)).reason == "it is larger than 1,000,000 bytes"
        with monkeypatch.context() as patch:
            patch.setitem(_BY_EXTENSION, "py", Grammar("tree_sitter_python", "(no query"))
            for _ in range(3):
                with pytest.raises(NoOutline, match="failed on this file"):
                    parser.definitions("a.py", b"")
        with pytest.raises(NoOutline, match="already failed on 3 files"):
            parser.definitions("a.py", b"")


@pytest.mark.row("Z6")
def test_a_file_that_takes_too_long_has_no_outline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "hasty.py"
    program.write_text(
        Path(parser_process.__file__).read_text().replace("SECONDS: Final = 2.0", "SECONDS: Final = 0.02")
    )
    monkeypatch.setattr(parser_process, "__file__", str(program))
    with (
        DefinitionParser(time.monotonic() + 30) as parser,
        pytest.raises(NoOutline, match="the parser failed on this file"),
    ):
        parser.definitions("a.py", b"(" * 5_000)


def test_a_missing_grammar_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(_BY_EXTENSION, "py", Grammar("tree_sitter_of_no_language", ""))
    (tmp_path / "a.py").write_text("def a(): ...\n")
    missing = "the package tree-sitter-of-no-language is not installed"
    assert missing in ask(tmp_path, "Outline", path="a.py")
    assert ask(tmp_path, "Outline") == f"a.py (1 line): no outline, {missing}"


def test_without_the_extra_code_has_no_outline_and_texts_have_headings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tree_sitter", None)
    monkeypatch.setattr(subprocess, "Popen", None)  # no process is started
    (tmp_path / "a.md").write_text("# Title\n")
    (tmp_path / "b.py").write_text("def b(): ...\n" * 3_000)
    (tmp_path / "c.go").write_text("func c() {}\n")
    outline = ask(tmp_path, "Outline").split("\n")
    assert outline[:3] == ["./: b.py 3000, c.go 1", "a.md (1 line)", "  1 Title"]
    reason = "outlines are not supported for `.go`, only for .md, .markdown, .mdx, .rst, .txt; use Read or Grep"
    assert ask(tmp_path, "Outline", path="c.go") == f"error: `c.go` has 1 line and no outline: {reason}"
    assert ask(tmp_path, "Grep", pattern="func c") == "c.go\n1:func c() {}"
    *_, note = ask(tmp_path, "Read", path="b.py").split("\n")
    assert note.startswith("(lines 1 to ")


def test_the_parser_has_no_keys_and_ignores_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tree_sitter.py").write_text("raise SystemExit('the code of a stranger')\n")
    (tmp_path / "a.py").write_text("def a(): ...\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("A_KEY", "key")
    started: list[dict[str, Any]] = []
    original_popen = subprocess.Popen

    def popen(*arguments: Any, **keywords: Any) -> Any:
        started.append(keywords)
        return original_popen(*arguments, **keywords)

    monkeypatch.setattr(subprocess, "Popen", popen)
    assert "1 def a()" in ask(tmp_path, "Outline", path="a.py")
    (settings,) = started
    assert set(settings["env"]) <= {"LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"}
    assert settings["cwd"] == "/"
