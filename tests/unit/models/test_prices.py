"""Prices: every token is charged once, and unknown prices stay unknown."""

from __future__ import annotations

import pytest
from genai_prices.data import providers
from hypothesis import given
from hypothesis import strategies as st

from skillrun.models.catalogue import Catalogue
from skillrun.models.entries import Price
from skillrun.models.messages import Usage
from tests.unit.models.settings import shipped

MILLION = 1_000_000


def test_cached_tokens_are_charged_at_their_own_rates_and_once() -> None:
    rates = Price(input=4, output=20, cache_read=0.2, cache_write=5)
    usage = Usage(input=3 * MILLION, output=MILLION, cache_read=MILLION, cache_write=MILLION)
    assert rates.cost(usage) == pytest.approx(4 + 20 + 0.2 + 5)


def test_without_a_cache_rate_cached_tokens_cost_as_much_as_input() -> None:
    assert Price(input=4, output=20).cost(Usage(2 * MILLION, 0, MILLION)) == pytest.approx(8)


def test_a_long_input_is_charged_at_the_long_rates() -> None:
    rates = Price(1, 2, above=1000, long=Price(10, 20))
    assert rates.cost(Usage(1000, 0)) == pytest.approx(0.001)
    assert rates.cost(Usage(1001, 0)) == pytest.approx(0.01001)


def test_an_unknown_price_is_unknown_and_not_zero() -> None:
    config = {**shipped(), "models": {"anthropic:claude-x": {"window": 8192, "input": 3}}}
    assert Catalogue.from_config(config).price("anthropic:claude-x", Usage(5, 5)) is None


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**6))
def test_a_cache_never_costs_more_than_the_highest_rate(fresh: int, read: int, write: int, output: int) -> None:
    rates = Price(4, 20, 0.2, 5)
    spent = rates.cost(Usage(fresh + read + write, output, read, write))
    assert 0 <= spent <= ((fresh + read + write) * 5 + output * 20) / MILLION + 1e-9


def test_the_shipped_prices_match_the_genai_prices_list() -> None:
    table = {
        f"{provider.id}:{provider_model.id}": provider_model
        for provider in providers
        for provider_model in provider.models
    }
    compared = 0
    for name, entry in shipped()["models"].items():
        model = table.get(name)
        if model is None:
            continue
        rates = model.prices[-1].prices if isinstance(model.prices, list) else model.prices
        for kind in ("input", "output", "cache_read", "cache_write"):
            price = getattr(rates, f"{kind}_mtok")
            if kind in entry:
                assert float(getattr(price, "base", price)) == entry[kind], (name, kind)
                compared += 1
            if "long" in entry and kind in entry["long"]:
                assert [(tier.start, float(tier.price)) for tier in price.tiers] == [
                    (entry["above"], entry["long"][kind])
                ], name
        assert model.context_window in {None, entry["window"]}, name
    assert compared > 40
