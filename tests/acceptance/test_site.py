"""The documentation site, as `make docs` builds it: links resolve, and nothing loads from other hosts."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from docsite import staging
from docsite.build import build
from docsite.foreign import foreign_hosts

pytestmark = pytest.mark.row("A4")


@pytest.mark.slow
def test_the_built_site_loads_nothing_from_other_hosts(tmp_path: Path) -> None:
    site = build(tmp_path / "site")
    assert foreign_hosts(site) == []
    for page in staging.pages().values():
        name = page.replace("README.md", "index.md").removesuffix(".md")
        assert (site / f"{name}.html").is_file()


@pytest.mark.slow
def test_broken_links_and_anchors_fail_the_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    top = tmp_path / "top"
    (top / "docs" / "decisions").mkdir(parents=True)
    (top / "README.md").write_text("# A\n\n[one](docs/b.md#here) [two](docs/b.md#nowhere) [three](docs/c.md)\n")
    (top / "docs" / "b.md").write_text("# B\n\n## Here\n")
    monkeypatch.setattr(staging, "TOP", top)
    monkeypatch.setattr(staging, "FROM_TOP", {"README.md": "index.md"})
    config = tmp_path / "zensical.toml"
    config.write_text('[project]\nsite_name = "skillrun"\n')
    with pytest.raises(staging.BrokenSite, match="2 issues found") as broken:
        build(tmp_path / "site", config)
    assert "[three](docs/c.md)" in str(broken.value)
    assert "[two](b.md#nowhere)" in str(broken.value)

    (top / "docs" / "b.md").write_text("[a folder](nothing/)\n")
    with pytest.raises(staging.BrokenSite, match=r"docs/b\.md: nothing/ leads to no page or file"):
        build(tmp_path / "site", config)


def test_resources_from_other_hosts_are_listed(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<script src="https://cdn.test/x.js"></script><a href="https://fine.test">x</a>')
    (tmp_path / "b.css").write_text("@import url(//fonts.test/f.css); a { background: url(data:image/png;base64,AA) }")
    assert foreign_hosts(tmp_path) == [("a.html", "https://cdn.test/x.js"), ("b.css", "//fonts.test/f.css")]


def test_links_and_fences_are_converted_for_the_site(tmp_path: Path) -> None:
    staging.stage(tmp_path)
    pages = {path.name: path.read_text(encoding="utf-8") for path in (tmp_path / "docs").glob("*.md")}
    assert "(language.md)" in pages["index.md"]
    assert "(docs/" not in pages["index.md"].replace("`", "")
    assert "(files/config/skillrun.yaml.txt)" in pages["language.md"]
    assert '```markdown title="workflows/triage.md"' in pages["language.md"]
    assert "``` { .console .no-copy }" in pages["tutorial.md"]


def _menu_pages(entries: list[dict[str, Any]]) -> Iterator[str]:
    for entry in entries:
        for page in entry.values():
            yield from _menu_pages(page) if isinstance(page, list) else [page]


def test_every_page_is_in_the_menu_or_listed_by_a_page_in_the_menu() -> None:
    """Decisions, judged runs and finished runs each have a page that lists them."""
    menu = set(_menu_pages(tomllib.loads(staging.CONFIG.read_text(encoding="utf-8"))["project"]["nav"]))
    listed = {
        page for page in staging.pages().values() if page.partition("/")[0] in ("decisions", "judged", "finished")
    }
    assert sorted(set(staging.pages().values()) - menu - listed) == []
    assert sorted(menu - set(staging.pages().values()) - {staging.DECISIONS}) == []
