"""Cost of drafts at list prices (SpecTools §5, Figure 7)."""

from __future__ import annotations

# Dollars per million tokens read and written: OpenAI's list prices of November 2025.
MAIN_PRICE = (1.25, 10.0)
DRAFT_PRICE = (0.05, 0.40)
PRICES = "gpt-5 (main model) and gpt-5-nano (drafts) in OpenAI's list of November 2025"

Tokens = tuple[float, float]
"""Tokens that a model reads and writes."""


def dollars_per_100_turns(draft: Tokens) -> float:
    """Return the dollars that drafts add to 100 turns; ``draft`` is of one turn."""
    return 100 * _dollars(draft, DRAFT_PRICE)


def added_cost_pct(draft: Tokens, main: Tokens) -> float:
    """Return the cost of a turn's drafts as a percentage of that of the main model's tokens."""
    return 100 * _dollars(draft, DRAFT_PRICE) / _dollars(main, MAIN_PRICE)


def _dollars(tokens: Tokens, price: tuple[float, float]) -> float:
    return sum(count * each for count, each in zip(tokens, price, strict=True)) / 1e6
