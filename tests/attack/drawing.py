"""What Hypothesis draws, the same in each run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy

Drawn = TypeVar("Drawn")


def draw_each(
    number: int, strategy: SearchStrategy[Drawn], act: Callable[[Drawn], object], place: int = 0
) -> None:
    """Call ``act`` with ``number`` examples of ``strategy``; another ``place`` draws others.

    Nothing is shrunk: the campaign collects problems, and goes on.
    """

    @seed(place)
    @settings(
        max_examples=number,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def act_on_each(drawn: Drawn) -> None:
        act(drawn)

    act_on_each()
