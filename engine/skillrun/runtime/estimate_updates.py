"""Updates a run's estimate when an answer, a `goto` or the length of a list changes what the run will do.

Updates are computed from the estimate made before the run began. A run without an estimate gets no updates.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from skillrun.events import Expected
from skillrun.runtime.run import Run
from skillrun.types.records import is_number, is_whole

Figures = Mapping[str, Any]


def emit_choice_estimate(run: Run, phase: str, answers: Iterable[Mapping[str, Any]]) -> None:
    """Emit a new estimate for each answer that changes the estimate."""
    before = run.state.estimate or {}
    for answer in answers:
        chosen = _estimate_with_answer(before, answer)
        if chosen is not None and _read_figures(chosen) != _read_figures(before):
            run.emit(Expected(phase, f"with {answer['id']} = {answer['answer']}", *_read_figures(chosen)))


def emit_goto_estimate(run: Run, phase: str, ahead: Iterable[str]) -> None:
    """Emit the estimate for the phases that are `ahead` after going back. Usage in earlier rounds is not included."""
    before: Figures = run.state.estimate or {}
    estimate = before
    for entry in run.journal.entries("answer"):
        for answer in entry.body.get("answers") or ():
            estimate = _estimate_with_answer(before, answer) or estimate
    phases = estimate.get("phases")
    if not isinstance(phases, Mapping):
        return
    parts = [_read_figures(phases[name]) for name in ahead if isinstance(phases.get(name), Mapping)]
    calls, turns, tokens = (sum(int(figures[at] or 0) for figures in parts) for at in range(3))
    prices = [price for *_, price in parts if price is not None]
    price = round(sum(prices), 2) if len(prices) == len(parts) else None
    run.emit(Expected(phase, "from here on", calls, turns, tokens, price))


def emit_items_estimate(run: Run, phase: str, place: str, number: int) -> None:
    """Emit a new estimate if the number of items of an `each` differs from the estimate."""
    estimate: Figures = run.outermost.state.estimate or {}
    eaches = estimate.get("each")
    item = eaches.get(place) if isinstance(eaches, Mapping) else None
    if not isinstance(item, Mapping) or not is_whole(item.get("items")) or item["items"] == number:
        return
    more = number - item["items"]
    calls, turns, tokens, price = _read_figures(estimate)
    of_item = [float(item[key]) if is_number(item.get(key)) else 0.0 for key in ("calls", "tokens", "price")]
    sums = max(0, calls + round(more * of_item[0])), max(0, tokens + round(more * of_item[1]))
    known = (
        round(max(0.0, price + more * of_item[2]), 2) if price is not None and is_number(item.get("price")) else None
    )
    because = f"because `{place.rpartition('/')[2]}` has {number} items, not {item['items']}"
    run.emit(Expected(phase, because, sums[0], turns, sums[1], known))


def _estimate_with_answer(estimate: Figures, answer: Mapping[str, Any]) -> Figures | None:
    """Return the estimate for the chosen answer; None if the estimate does not distinguish this question's choices."""
    answers = estimate.get("answers")
    choices = answers.get(str(answer.get("id")).replace("-", "_")) if isinstance(answers, Mapping) else None
    figures = choices.get(str(answer.get("answer"))) if isinstance(choices, Mapping) else None
    return figures if isinstance(figures, Mapping) else None


def _read_figures(figures: Figures) -> tuple[int, int, int, float | None]:
    """Return calls, turns with tools, tokens and price. Ignore values that are not numbers (in an edited state)."""
    calls, turns, tokens = (
        int(figures[key]) if is_whole(figures.get(key)) else 0 for key in ("calls", "turns", "tokens")
    )
    price: Any = figures.get("price")
    return calls, turns, tokens, float(price) if is_number(price) else None
