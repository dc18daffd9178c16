"""The settings of speculation."""

from __future__ import annotations

from typing import Literal

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from .settings import Settings

__all__ = ["Budget", "SpeculationConfig", "TurnAhead"]


class Budget(Settings):
    """The most that speculation may spend in vain; None is no bound.

    ``runs`` and ``seconds`` count early runs that no call has claimed, those under way included in
    ``runs``. ``tokens`` counts what predictors read and write, ``money`` what they and the unclaimed runs
    cost, in whichever currency their prices are given. What is spent is forgotten evenly over
    ``per_seconds``, or never.
    """

    runs: NonNegativeInt | None = None
    seconds: NonNegativeFloat | None = None
    tokens: NonNegativeInt | None = None
    money: NonNegativeFloat | None = None
    per_seconds: PositiveFloat | None = None


class TurnAhead(Settings):
    """Limits of turn-ahead, the main model's requests sent before they are due; see :mod:`agentrt.lookahead`.

    ``depth`` is how many turns ahead of the one that is due a call may be made. Calls that are made and not
    kept cost what calls of the main model cost: no more are made once ``max_wasted`` more of them were in
    vain than were kept.
    """

    depth: PositiveInt = 1
    max_wasted: PositiveInt = 8


class SpeculationConfig(Settings):
    """Bounds that hold for one speculating model or session. What concerns one tool is set on the tool.

    ``mode`` is ``"on"``, ``"shadow"`` to have calls guessed and judged but none run early, or ``"off"``.
    ``max_speculations`` is the most early runs that one model call may start, over all its predictors
    and samples. ``report_turns`` is how many turns a report shows one by one; its totals cover all.

    The controller weighs what speculation is expected to save against what it is expected to waste: a
    second of an early run in vain counts like ``wasted_second_weight`` seconds of waiting, and money like
    the seconds it is worth, if ``second_saved_is_worth`` says how much that is; otherwise money counts
    only against the ``budget``.

    ``turn_ahead`` lets the main model be asked ahead; None, the default, does not. An answer is kept if it
    answers a request that is equal but for the ids of the calls in its history.
    """

    mode: Literal["on", "shadow", "off"] = "on"
    max_speculations: PositiveInt = 8
    report_turns: PositiveInt = 1000
    budget: Budget = Budget()
    wasted_second_weight: NonNegativeFloat = 0.05
    second_saved_is_worth: PositiveFloat | None = None
    turn_ahead: TurnAhead | None = None
