"""A project may raise the price of a model, or give one to a model without a price. It lowers none."""

from __future__ import annotations

from pathlib import Path

import pytest

from skillrun.library.library import Library
from skillrun.library.roots import Root, search_path
from skillrun.models.catalogue import Catalogue
from skillrun.models.messages import Usage

OPUS, HAIKU = "anthropic:claude-opus-5-5", "anthropic:claude-haiku-5-5"
CALLS = [Usage(1000, 500), Usage(1000, 0, 900, 0), Usage(1000, 0, 0, 900), Usage(150_000, 10), Usage(400_000, 10)]
pytestmark = [pytest.mark.row("Z7"), pytest.mark.finding("FS17")]


def load(folder: Path, text: str, user: str = "") -> tuple[Catalogue, Library]:
    """The catalogue with `text` as the project's models.yaml, and `user` as the user's."""
    roots = [root for root in search_path(folder) if root.name not in ("project", "user")]
    for name, content in (("user", user), ("project", text)):
        (folder / name / "config").mkdir(parents=True, exist_ok=True)
        (folder / name / "config" / "models.yaml").write_text(content, encoding="utf-8")
        roots.insert(0, Root(folder / name, f"{name}/", name, is_confined=True))
    library = Library(roots)
    config = library.config("models")
    assert config is not None
    return Catalogue.from_config(config.data), library


@pytest.mark.parametrize(
    ("model", "price"),
    [
        (OPUS, "{input: 0, output: 0}"),
        (OPUS, "{input: 3}"),
        (OPUS, "{output: 19.9}"),
        (OPUS, "{cache_read: 0.1}"),
        (OPUS, "{cache_write: 0}"),
        (OPUS, "{input: null}"),
        (OPUS, "{above: 10, long: {input: 0, output: 0}}"),
        (OPUS, "{input: 100, output: 100, cache_read: 100, cache_write: 100, above: 0, long: {input: 1, output: 1}}"),
        (HAIKU, "{above: 300000}"),
        (HAIKU, "{long: {input: 0.4}}"),
        (HAIKU, "{long: null}"),
        (HAIKU, "{long: {cache_write: 0}}"),
    ],
)
def test_a_lower_price_of_a_project_is_reported_and_ignored(tmp_path: Path, model: str, price: str) -> None:
    shipped, _ = load(tmp_path, "")
    catalogue, library = load(tmp_path, f'models:\n  "{model}": {price}\n')
    assert [catalogue.price(model, call) for call in CALLS] == [shipped.price(model, call) for call in CALLS]
    if "null" not in price:  # null sets no price
        (problem,) = library.problems
        assert (problem.line, problem.severity) == (2, "warning")
        assert problem.message == f"a project cannot lower the price of `{model}`; the price of your config is used"


@pytest.mark.parametrize(
    ("model", "price"),
    [
        (OPUS, "{input: 40, output: 200, cache_read: 4, cache_write: 50}"),
        (OPUS, "{above: 1000, long: {input: 8, output: 40, cache_read: 1, cache_write: 10}}"),
        (HAIKU, "{above: 1000}"),
        ("anthropic:claude-new", "{input: 1, output: 1}"),
        (OPUS, "{window: 1000}"),
    ],
)
def test_other_prices_of_a_project_are_used(tmp_path: Path, model: str, price: str) -> None:
    shipped, _ = load(tmp_path, "")
    catalogue, library = load(tmp_path, f'models:\n  "{model}": {price}\n')
    assert list(library.problems) == []
    assert all((catalogue.price(model, call) or 0) >= (shipped.price(model, call) or 0) for call in CALLS)
    assert catalogue.models[model].items() >= {"anthropic:claude-new": {"input": 1}, OPUS: {}, HAIKU: {}}[model].items()


def test_the_user_may_lower_a_price_and_a_project_then_may_not(tmp_path: Path) -> None:
    catalogue, library = load(
        tmp_path, f'models: {{"{OPUS}": {{input: 1.5}}}}\n', f'models: {{"{OPUS}": {{input: 2}}}}\n'
    )
    assert catalogue.models[OPUS]["input"] == 2
    assert len(list(library.problems)) == 1
