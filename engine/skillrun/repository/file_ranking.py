"""Ranks files by how relevant they are in results: code, tests, other texts, and last generated files and
changelogs."""

from __future__ import annotations

import re
from typing import Final

CODE, TESTS, TEXTS, RECORDS = range(4)

_TEST_FOLDERS: Final = frozenset(
    {"test", "tests", "testing", "testdata", "spec", "specs", "__tests__", "__mocks__", "fixtures", "e2e"}
)
_TEST_NAME: Final = re.compile(
    r"test_.*|conftest\.py|.*[._-](test|tests|spec)\.\w+|.*(Test|Tests|Spec)\.(java|kt|cs|php|swift)"
)
_TEXT_FOLDERS: Final = frozenset({"doc", "docs", "documentation", "man"})
_TEXT_NAME: Final = re.compile(r".*\.(md|markdown|mdx|rst|txt|adoc|asciidoc|org|tex|html?|[1-8])", re.IGNORECASE)
_RECORD_NAME: Final = re.compile(
    r"(changelog|changes|history|news|releases?|release[-_]notes)(\.\w+)?"
    r"|.*\.lock|.*[.-]lock\.(json|ya?ml)|go\.sum|.*\.min\.(js|css|mjs)|.*\.(map|svg|csv|tsv|po|pot|ipynb|snap|log|patch|diff)",
    re.IGNORECASE,
)


def rank_file(name: str) -> int:
    """Return the rank of a file, judging by its path only: CODE, TESTS, TEXTS, or RECORDS (changelogs, lock files and
    generated files)."""
    *folders, base_name = name.split("/")
    lowered = {folder.lower() for folder in folders}
    if _RECORD_NAME.fullmatch(base_name):
        return RECORDS
    if lowered & _TEST_FOLDERS or _TEST_NAME.fullmatch(base_name):
        return TESTS
    if lowered & _TEXT_FOLDERS or _TEXT_NAME.fullmatch(base_name):
        return TEXTS
    return CODE
