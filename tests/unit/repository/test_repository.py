"""The read-only tools: their results, withheld files, and limits."""

from __future__ import annotations

import asyncio
import os
import re
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skillrun import registry
from skillrun.definitions.verbs import LOOKUP
from skillrun.library.library import Library
from skillrun.library.roots import Root, package_library
from skillrun.library.settings import secret_names
from skillrun.repository.confined_folder import ConfinedFolder
from skillrun.repository.file_tools import MAX_RANGE, MAX_WHOLE_FILE
from skillrun.repository.readable_folder import ReadableFolder
from skillrun.repository.repository import Repository, load_tool, tool_spec
from skillrun.repository.results import MAX_LINE, MAX_RESULT
from skillrun.repository.searching import MAX_HITS
from skillrun.scoring.compaction import estimate_tokens
from skillrun.syntax.diagnostics import Problems
from skillrun.syntax.document import parse_document
from skillrun.syntax.reading import read_source

TOOLS = registry.BUILT_IN["tools"]
SECRET = "the secret of the folder next door"
SECRETS = secret_names(Library([Root(package_library(), "skillrun:", "library")]))
DESCRIPTIONS = Path(__file__).parents[3] / "skills" / "system" / "tools.md"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "next-door").mkdir()
    (tmp_path / "next-door" / "secret.txt").write_text(SECRET)
    folder = tmp_path / "root"
    files = {
        "README.md": "# Title\n\nAn app.\n",
        "src/app.py": "import os\n\n\ndef main() -> None:\n    print('hello')\n",
        "src/lib/util.py": "def helper() -> int:\n    return 1\n",
        "src/page.tsx": "export const page = 1\n",
        "build/out.py": "def built(): ...\n",
        ".git/config": "[core] token\n",
        "node_modules/x/index.js": "def nothing\n",
        ".gitignore": "build/\n*.log\n",
        "run.log": "def logged\n",
        "empty.txt": "",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "image.png").write_bytes(b"\x89PNG\0\0def")
    (folder / "far").symlink_to(tmp_path / "next-door" / "secret.txt")
    (folder / "door").symlink_to(tmp_path / "next-door")
    (folder / "src" / "near").symlink_to("app.py")
    return folder


def repository(root: Path) -> Repository:
    return Repository(lambda: ReadableFolder(ConfinedFolder(root, links=True), SECRETS))


def ask(root: Path, tool: str, /, **arguments: Any) -> str:
    return asyncio.run(repository(root).run(tool, arguments))


def ask_with_limit(root: Path, tokens: int, tool: str, /, **arguments: Any) -> str:
    return asyncio.run(repository(root).run(tool, arguments, tokens))


def test_a_file_is_read_with_line_numbers(root: Path) -> None:
    assert ask(root, "Read", path="README.md") == "     1\t# Title\n     2\t\n     3\tAn app."


def test_a_part_of_a_file_names_the_next_offset(root: Path) -> None:
    answer = ask(root, "Read", path="src/app.py", offset=2, limit=3)
    assert answer.endswith("     4\tdef main() -> None:\n(lines 2 to 4 of 5; continue with offset 5)")


def test_the_parts_of_a_long_file_add_up_to_the_file(root: Path) -> None:
    lines = [f"line {n} " + "x" * (n % 90) for n in range(2000)]
    (root / "long.txt").write_text("\n".join(lines))
    lines_read: list[str] = []
    while len(lines_read) < len(lines):
        answer = ask(root, "Read", path="long.txt", offset=len(lines_read) + 1)
        assert len(answer) <= MAX_WHOLE_FILE + 100
        lines_read += [line.split("\t", 1)[1] for line in answer.split("\n") if "\t" in line]
    assert lines_read == lines


def test_a_long_line_is_cut_with_a_note(root: Path) -> None:
    (root / "wide.txt").write_text(("y" * 5000 + "\n") * 100)
    assert f"y […{5000 - MAX_LINE} more characters]\n" in ask(root, "Read", path="wide.txt")


@pytest.mark.finding("FX1")
def test_a_file_of_one_long_line_uses_the_room_of_a_result(root: Path) -> None:
    (root / "wide.json").write_text("y" * 5000)
    assert ask(root, "Read", path="wide.json") == f"     1\t{'y' * 5000}"
    (root / "wide.json").write_text("y" * 300_000)
    shown = ask(root, "Read", path="wide.json")
    assert shown.count("y") > 20_000
    assert re.search(r"y \[…\d+ more characters\]$", shown)


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        ({"path": "missing.py"}, "error: there is no `missing.py`"),
        ({"path": "src"}, "error: `src` is a folder; use List"),
        ({"path": "image.png"}, "error: `image.png` is a binary file"),
        ({"path": "src/app.py", "offset": 99}, "error: `src/app.py` has 5 lines"),
        ({"path": "src/app.py", "offset": 0}, "error: `offset` is `0`; allowed: 1 or more"),
        ({"path": "src/app.py", "offset": "x"}, "error: `offset` is `x`; expected a whole number"),
        ({}, "error: `path` is missing"),
        ({"file": "a", "path": "README.md"}, "error: unknown field `file`; allowed: path, offset, limit"),
        ({"path": "empty.txt"}, "(the file is empty)"),
        ({"path": "README.md/x"}, "error: there is no `README.md/x`"),
        ({"path": "x" * 5000}, None),
    ],
)
def test_a_read_error_is_a_result(root: Path, arguments: dict[str, Any], answer: str | None) -> None:
    result = ask(root, "Read", **arguments)
    assert result.startswith("error:") if answer is None else result == answer


def test_an_unknown_tool_is_a_result(root: Path) -> None:
    assert ask(root, "Write", path="x") == "error: there is no tool `Write`; allowed: Read, Outline, Grep, Glob, List"


def test_reading_a_pipe_does_not_block(root: Path) -> None:
    os.mkfifo(root / "pipe")
    assert ask(root, "Read", path="pipe") == "error: `pipe` is not a regular file."
    assert ask(root, "Grep", pattern="x", path="pipe") == "error: `pipe` is not a regular file."
    assert "pipe" not in ask(root, "Grep", pattern="x")


def test_grep_lists_matching_lines_in_a_fixed_order(root: Path) -> None:
    assert ask(root, "Grep", pattern=r"def \w+|print").split("\n") == [
        "src/app.py",
        "[4-5 main]",
        "4:def main() -> None:",
        "5:    print('hello')",
        "src/near",
        "4:def main() -> None:",
        "5:    print('hello')",
        "src/lib/util.py",
        "[1-2 helper]",
        "1:def helper() -> int:",
    ]


def test_grep_can_be_limited_to_a_folder_a_file_or_a_glob(root: Path) -> None:
    assert ask(root, "Grep", pattern="def", path="src/lib") == "src/lib/util.py\n[1-2 helper]\n1:def helper() -> int:"
    assert ask(root, "Grep", pattern="1", path="src/page.tsx") == "src/page.tsx\n1:export const page = 1"
    assert ask(root, "Grep", pattern="1", glob="*.{ts,tsx}") == "src/page.tsx\n1:export const page = 1"
    assert ask(root, "Grep", pattern="absent") == "(no hits)"


def test_grep_names_the_definitions_that_contain_hits_including_decorators(root: Path) -> None:
    (root / "src" / "cli.py").write_text(
        "class Tool:\n    @option('--mark')\n    def first(self): ...\n\n    def other(self):\n        self.mark = 1\n"
    )
    assert ask(root, "Grep", pattern="mark").split("\n") == [
        "src/cli.py",
        "[2-3 class Tool > first]",
        "2:    @option('--mark')",
        "[5-6 class Tool > other]",
        "6:        self.mark = 1",
    ]


def test_grep_orders_code_tests_texts_and_records_and_shows_a_share_of_each_file(root: Path) -> None:
    names = ["CHANGELOG.md", "docs/guide.md", "package-lock.json", "tests/test_app.py", "zebra.py", "src/app.test.ts"]
    for name in names:
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("".join(f"mark {number}\n" for number in range(60)))
    lines = ask(root, "Grep", pattern="mark").split("\n")
    shown = [line for line in lines if line in names]
    assert shown == ["zebra.py", "src/app.test.ts", "tests/test_app.py", "docs/guide.md", *sorted(names[:3:2])]
    counts = [int(line.split()[1]) for line in lines if line.startswith("(and ")]
    assert len(counts) == len(names), "every file shows the number of further hits"
    assert sum(counts) + sum(line[0].isdigit() for line in lines) == 60 * len(names)
    assert counts == [60 - 30, 60 - 8, 60 - 8, 60 - 4, 60 - 2, 60 - 2], "less relevant files show fewer hits"


def test_grep_names_the_files_with_most_hidden_hits(root: Path) -> None:
    for number in range(150):
        (root / f"part-{number:03}.py").write_text("mark\n" * (1 + number % 7))
    (root / "worst.md").write_text("mark\n" * 500)
    answer = ask(root, "Grep", pattern="mark")
    assert len(answer) <= MAX_RESULT + 100
    *lines, rest = answer.split("\n")
    hits = sum(line[0].isdigit() for line in lines)
    more = sum(int(line.split()[1]) for line in lines if line.startswith("(and "))
    assert 50 < hits <= MAX_HITS
    total = 500 + sum(1 + number % 7 for number in range(150))
    assert rest.startswith(f"(not shown: {total - hits - more} hits in worst.md 500, part-")
    assert rest.endswith(" other files; use a narrower pattern, path or glob)")


def test_grep_names_files_that_are_too_large_to_search(root: Path) -> None:
    (root / "data.json").write_text("mark\n" * 1_100_000)
    (root / "one.py").write_text("mark\n")
    answer = ask(root, "Grep", pattern="mark")
    assert answer == "one.py\n1:mark\n(not searched: `data.json` is larger than 5,000,000 bytes)"


def test_grep_reports_an_invalid_pattern(root: Path) -> None:
    assert ask(root, "Grep", pattern="(def").startswith("error: `(def` is not a regular expression")
    assert "is longer than 500 characters" in ask(root, "Grep", pattern="a" * 501)


def test_grep_stops_a_pattern_that_takes_too_long(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("readable_folder", "searching"):
        monkeypatch.setattr(f"skillrun.repository.{module}.SECONDS", 0)
    (root / "evil.txt").write_text("a" * 5000 + "!")
    answer = ask(root, "Grep", pattern="(a+)+b", path="evil.txt")
    assert answer == "(stopped in evil.txt after 0 seconds; use a simpler pattern or a narrower path)"


def test_grep_counts_hidden_hits(root: Path) -> None:
    (root / "many.txt").write_text("hit\n" * 500)
    answer = ask(root, "Grep", pattern="hit").split("\n")
    assert answer[0] == "many.txt"
    assert len(answer) == MAX_HITS + 2
    assert answer[-1] == f"(and {500 - MAX_HITS} more in this file)"


def test_glob_lists_files_without_ignored_ones(root: Path) -> None:
    assert ask(root, "Glob", pattern="*.py") == "src/app.py\nsrc/lib/util.py"
    assert ask(root, "Glob", pattern="src/**/*.{py,tsx}") == "src/app.py\nsrc/page.tsx\nsrc/lib/util.py"
    assert ask(root, "Glob", pattern="src/*.py") == "src/app.py"
    assert ask(root, "Glob", pattern="*.log") == "(no files)"


def test_list_shows_one_folder_with_sizes(root: Path) -> None:
    assert ask(root, "List").split("\n") == [
        ".gitignore  2 lines",
        "README.md  3 lines",
        "empty.txt  0 lines",
        "image.png  9 bytes",
        "src/  4 files",
    ]
    assert ask(root, "List", path="src").split("\n") == [
        "app.py  5 lines",
        "lib/  1 file",
        "near  5 lines",
        "page.tsx  1 line",
    ]
    assert ask(root, "List", path="README.md") == "error: `README.md` is a file; use Read"


def test_a_requested_range_is_returned_completely(root: Path) -> None:
    lines = [f"line {n} " + "x" * 60 for n in range(3000)]
    (root / "long.txt").write_text("\n".join(lines))
    requested = ask(root, "Read", path="long.txt", offset=500, limit=1000)
    assert MAX_WHOLE_FILE < len(requested) < MAX_RANGE
    assert requested.split("\n")[-2].endswith(lines[1498])
    assert requested.endswith("(lines 500 to 1499 of 3000; continue with offset 1500)")
    largest = ask(root, "Read", path="long.txt", limit=3000)
    assert MAX_RANGE - 1000 < len(largest) <= MAX_RANGE


def test_a_slightly_longer_file_is_returned_completely_and_a_longer_one_outlines_the_rest(root: Path) -> None:
    text = "".join(f"def function_{n}(one, two):\n    return one + two\n\n\n" for n in range(250))
    (root / "code.py").write_text(text)
    assert "next is offset" not in ask(root, "Read", path="code.py")
    (root / "code.py").write_text(text * 2)
    answer = ask(root, "Read", path="code.py")
    assert len(answer) < MAX_RESULT + 3500
    shown, rest = answer.split("(below:)\n")
    last = int(re.search(r"continue with offset (\d+)\)", shown)[1]) - 1  # type: ignore[index]
    first = 4 * -((1 - last) // 4) + 1  # first line of the last function in the part, or of the next
    assert rest.startswith(f"{first}-{first + 1} function_{first // 4}\n")
    assert "(below:)" not in ask(root, "Read", path="code.py", offset=10, limit=5)


@pytest.mark.slow
@pytest.mark.row("Z6")
def test_a_result_keeps_to_the_token_limit(root: Path) -> None:
    text = "".join(f"def function_{n}(one, two):\n    return one + two\n\n\n" for n in range(100))
    for number in range(9):
        (root / "src" / f"code{number}.py").write_text(text)
    tool_calls: list[tuple[str, dict[str, Any]]] = [
        ("Read", {"path": "src/code1.py"}),
        ("Read", {"path": "src/code1.py", "limit": 390}),
        ("Outline", {}),
        ("Outline", {"path": "src/code1.py"}),
        ("Grep", {"pattern": "one"}),
        ("Glob", {"pattern": "*"}),
        ("List", {"path": "src"}),
    ]
    for tool, arguments in tool_calls:
        for tokens in (150, 900):
            answer = ask_with_limit(root, tokens, tool, **arguments)
            assert estimate_tokens(answer) <= tokens * 1.1, (tool, tokens)
            assert (
                "\n(" in answer
                or answer[0] == "("
                or answer.startswith("error: there is no room")
                or len(answer) < 2500
            )
    assert ask_with_limit(root, 0, "Read", path="src/app.py").startswith("error: there is no room left for line 1")


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        (".git/config", "`.git` is never shown"),
        (".GIT/config", "`.git` is never shown"),
        ("node_modules/x/index.js", "`node_modules` is never shown"),
        ("build/out.py", "git ignores it"),
        ("run.log", "git ignores it"),
        (".env", "files with this name may hold secrets"),
        ("sub/.SSH/config", "files with this name may hold secrets"),
    ],
)
@pytest.mark.finding("FZ12")
def test_a_withheld_file_is_reported_as_withheld(root: Path, path: str, reason: str) -> None:
    assert ask(root, "Read", path=path) == f"error: `{path}` is withheld: {reason}."


@pytest.mark.parametrize(
    "path",
    ["../next-door/secret.txt", "far", "door/secret.txt", "src/../../next-door/secret.txt", "door", "\0", "a\ud800"],
)
def test_no_file_outside_is_shown(root: Path, path: str) -> None:
    for tool, arguments in (
        ("Read", {"path": path}),
        ("Outline", {"path": path}),
        ("List", {"path": path}),
        ("Grep", {"pattern": "secret", "path": path}),
    ):
        answer = ask(root, tool, **arguments)
        assert answer.startswith("error:")
        assert SECRET not in answer
        assert str(root.parent) not in answer
    outside = str(root.parent / "next-door" / "secret.txt")
    assert ask(root, "Read", path=outside).startswith("error:")
    assert SECRET not in ask(root, "Grep", pattern="secret")


ARGUMENTS = st.dictionaries(
    st.sampled_from(["path", "pattern", "glob", "offset", "limit", "other"]),
    st.none()
    | st.integers()
    | st.text(max_size=12)
    | st.sampled_from(
        ["..", "../next-door", "far", "door/secret.txt", "/", "~", "**", "{a,b}{c", "(", "[", "src/*", ".*"]
    ),
)


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.sampled_from(list(TOOLS)), ARGUMENTS)
def test_any_arguments_have_a_bounded_result_in_valid_utf_8(root: Path, tool: str, arguments: dict[str, Any]) -> None:
    answer = ask(root, tool, **arguments)
    assert answer == ask(root, tool, **arguments)
    assert 0 < len(answer) <= MAX_RESULT + 1000
    assert SECRET not in answer
    answer.encode("utf-8")


def test_the_shipped_descriptions_cover_every_tool_and_parameter() -> None:
    problems = Problems()
    source = read_source(DESCRIPTIONS, "tools.md", problems)
    assert source is not None
    document = parse_document(source, problems)
    assert document is not None
    described = {section.name: section.text.value for section in document.sections}
    assert list(described) == [*TOOLS, LOOKUP]  # the run itself provides `LOOKUP`
    for name in TOOLS:
        spec = tool_spec(name, described[name], load_tool(name).parameters)
        assert spec["description"]
        assert "\n- `" not in spec["description"]
        for parameter in spec["parameters"]["properties"].values():
            assert parameter["description"]


def test_lines_of_a_description_describe_parameters() -> None:
    spec = tool_spec("Read", "Reads.\n- `path`: The file.", load_tool("Read").parameters)
    assert (spec["name"], spec["description"]) == ("Read", "Reads.")
    assert spec["parameters"]["properties"]["path"] == {"type": "string", "description": "The file."}
    assert spec["parameters"]["properties"]["offset"] == {"type": "integer", "minimum": 1}


def test_searches_skip_run_folders_and_run_records_are_withheld(root: Path) -> None:
    (root / "runs" / "one" / ".run").mkdir(parents=True)
    (root / "runs" / "one" / "design.md").write_text("def in a design\n")
    (root / "runs" / "one" / ".run" / "transcript.ndjson").write_text("def in a transcript\n")
    assert "runs/" not in ask(root, "Grep", pattern="def")
    assert "runs/" not in ask(root, "Glob", pattern="*.md")
    assert ask(root, "Read", path="runs/one/design.md").endswith("def in a design")
    assert ask(root, "Read", path="runs/one/.run/transcript.ndjson").startswith("error:")
    assert ask(root, "Grep", pattern="def", path="runs/one/.run").startswith("error:")
    assert "runs/" not in ask(root, "Outline")
    assert ask(root, "List", path="runs/one") == "design.md  1 line"
    assert "runs/  1 file" in ask(root, "List")


@pytest.mark.finding("FZ14")
@pytest.mark.row("Z6")
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("Read", {"path": "c/" * 2_000_000}),
        ("Read", {"path": "src/" + "../src/" * 600_000 + "app.py"}),
        ("Grep", {"pattern": "x", "path": "c/" * 2_000_000}),
        ("Grep", {"pattern": "x", "glob": "**/" * 1_500_000}),
        ("Grep", {"pattern": "x" * 5_000_000}),
        ("Glob", {"pattern": "{a,b}" * 800_000}),
        ("Outline", {"path": "c/" * 2_000_000}),
        ("Outline", {"glob": "{a,b}" * 800_000}),
        ("List", {"path": "\n" * 4_000_000}),
        ("Read", {"n" * 5_000_000: 1, "path": "README.md"}),
        ("n" * 5_000_000, {}),
        ("Read", {"path": "README.md", "offset": 10**4_000}),
        ("Read", {"path": ["x"] * 1_000_000}),
        ("Read", {f"name{number}": number for number in range(100_000)}),
    ],
)
def test_arguments_that_are_too_large_are_refused_immediately_and_not_repeated(
    root: Path, tool: str, arguments: dict[str, Any]
) -> None:
    started = time.monotonic()
    answer = ask(root, tool, **arguments)
    assert answer.startswith("error:")
    assert len(answer) < 300
    assert time.monotonic() - started < 5


@pytest.mark.slow
@pytest.mark.row("Z6")
def test_deep_and_wide_trees_are_limited(root: Path) -> None:
    folder = root / "deep"
    for _ in range(100):
        folder = folder / "d"
    folder.mkdir(parents=True)
    (folder / "far-down.txt").write_text("x")
    (root / "wide").mkdir()
    for number in range(3000):
        (root / "wide" / f"{number}.txt").touch()
    answer = ask(root, "Glob", pattern="*.txt")
    assert len(answer) <= MAX_RESULT + 100
    assert "far-down" not in answer
    assert ask(root, "List", path="wide").endswith("more)")


@pytest.mark.finding("FZ12")
@pytest.mark.row("Z5")
@pytest.mark.parametrize(
    "name",
    [
        *(".env", ".ENV", ".env.local", "Server.PEM", "a.key", "id_rsa", "id_ed25519.pub", ".npmrc", ".netrc"),
        *(
            ".git-credentials",
            ".aws/credentials",
            ".ssh/config",
            ".gnupg/ring",
            "x/.kube/config",
            ".docker/config.json",
        ),
        *("a.p12", "a.pfx", "a.jks", "a.keystore", "x.tfstate", ".htpasswd", "secrets.yml", "Secrets.yaml", "a.kdbx"),
        *("service-account-prod.json", ".e\u200dnv", "sub/.env/inner", ".pypirc", ".bash_history"),
    ],
)
def test_files_with_secret_names_are_withheld_from_all_tools(root: Path, name: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(SECRET)
    (root / "link").symlink_to(name)
    assert "is withheld: files with this name may hold secrets" in ask(root, "Read", path=name)
    assert "is withheld: files with this name may hold secrets" in ask(root, "Read", path="link")
    file_name = name.rpartition("/")[2]
    for answer in (ask(root, "Grep", pattern="secret"), ask(root, "Glob", pattern="*"), ask(root, "List")):
        assert SECRET not in answer
        assert file_name not in answer
        assert "link" not in answer


@pytest.mark.parametrize("name", [".env.example", ".env.sample", "environment.py", "keys.py", "src/credentials/a.py"])
def test_files_with_similar_names_are_shown(root: Path, name: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text("shown\n")
    assert ask(root, "Read", path=name).endswith("\tshown")


def test_a_secret_name_is_withheld_whether_or_not_the_file_exists(root: Path) -> None:
    assert "is withheld" in ask(root, "Read", path="nowhere/.env")
    assert ask(root, "Read", path="nowhere/env") == "error: there is no `nowhere/env`"


@pytest.mark.finding("FX8")
def test_tools_read_utf16_and_say_what_is_not_utf8(root: Path) -> None:
    (root / "wide.txt").write_bytes("\ufeffgrößer\nzwei\n".encode("utf-16-le"))
    assert ask(root, "Read", path="wide.txt") == "     1\tgrößer\n     2\tzwei"
    assert "1:größer" in ask(root, "Grep", pattern="größer")
    assert "wide.txt  2 lines" in ask(root, "List")
    (root / "cafe.txt").write_bytes("café olé\n# Größe\n".encode("latin-1"))
    note = "cafe.txt is not UTF-8: 4 characters are shown as \ufffd)"
    assert ask(root, "Read", path="cafe.txt").endswith("(the file is not UTF-8: 4 characters are shown as \ufffd)")
    assert ask(root, "Grep", pattern="caf", path="cafe.txt").endswith(f"({note}")
    assert "not UTF-8" not in ask(root, "Grep", pattern="zwei")
    (root / "notes.md").write_bytes("# Größe\n".encode("latin-1"))
    assert ask(root, "Outline", path="notes.md").endswith("(the file is not UTF-8: 2 characters are shown as \ufffd)")


@pytest.mark.finding("FX8")
def test_a_name_that_is_not_utf8_is_marked(root: Path) -> None:
    try:
        (root / os.fsdecode(b"caf\xe9.txt")).write_text("x")
    except OSError:
        pytest.skip("the file system takes only names in UTF-8")
    note = "(a name that is not UTF-8 is shown with \ufffd, and cannot be read)"
    assert ask(root, "Glob", pattern="caf*") == f"caf\ufffd.txt\n{note}"
    assert ask(root, "List").endswith(f"\n{note}")
