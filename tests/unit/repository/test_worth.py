"""The ranking of files in the results of tools."""

import pytest

from skillrun.repository.results import CODE, RECORDS, TESTS, TEXTS, rank_file


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (
            CODE,
            [
                "app.py",
                "src/latest.py",
                "contest/run.go",
                "package.json",
                "Makefile",
                "src/document.ts",
                "a/history/x.rs",
            ],
        ),
        (
            TESTS,
            ["tests/a.py", "src/test_a.py", "conftest.py", "a_test.go", "ui/a.spec.ts", "Spec/a.rb", "x/FooTest.java"],
        ),
        (TEXTS, ["README.md", "docs/conf.py", "man/tool.1", "LICENSE.txt", "page.html"]),
        (
            RECORDS,
            [
                "CHANGELOG.md",
                "docs/changelog.rst",
                "uv.lock",
                "package-lock.json",
                "go.sum",
                "a.min.js",
                "tests/x.snap",
            ],
        ),
    ],
)
def test_a_file_is_ranked_by_its_path(kind: int, names: list[str]) -> None:
    assert {name: rank_file(name) for name in names} == dict.fromkeys(names, kind)
