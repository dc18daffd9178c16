"""The settings of speculation."""

from __future__ import annotations

from pydantic import PositiveInt

from ._settings import Settings


class SpeculationConfig(Settings):
    """Bounds that hold for one speculating model or session. What concerns one tool is set on the tool.

    ``max_speculations`` is the most early runs that one model call may start, over all its predictors
    and samples. ``report_turns`` is how many turns a report shows one by one; its totals cover all.
    """

    max_speculations: PositiveInt = 8
    report_turns: PositiveInt = 1000
