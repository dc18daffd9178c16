"""Settings of speculation."""

from __future__ import annotations

from typing import Literal

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from .settings import Settings

__all__ = ["Budget", "SpeculationConfig", "TurnAhead"]


class Budget(Settings):
    """The most that speculation may waste; None is no bound.

    ``runs`` and ``seconds`` count speculations that are not claimed, from their start: a running one has the
    tool's mean time. ``tokens`` counts the tokens that predictors read and write, ``money`` the cost of
    predictors and of unclaimed runs, in the currency of their prices; a predictor's request counts when it is
    sent, by an estimate, and by its usage once that is known. Spending decays evenly over ``per_seconds``, or
    never.
    """

    runs: NonNegativeInt | None = None
    seconds: NonNegativeFloat | None = None
    tokens: NonNegativeInt | None = None
    money: NonNegativeFloat | None = None
    per_seconds: PositiveFloat | None = None


class TurnAhead(Settings):
    """Limits of turn-ahead: model requests sent before they are due; see :mod:`agentrt.lookahead`.

    ``depth`` is the most turns by which a request may be ahead. A wasted request costs as much as any other
    request of the main model: none is sent that, together with those of its run that are ahead already, could
    bring the number of wasted ones to more than ``max_wasted`` above that of kept ones.
    """

    depth: PositiveInt = 1
    max_wasted: PositiveInt = 8


class SpeculationConfig(Settings):
    """Settings of one speculating model, client or session. Those of one tool are set on the tool.

    ``mode`` is ``"on"``, ``"off"``, or ``"shadow"``: calls are predicted and judged, but none is run
    speculatively. ``max_speculations`` is the most speculations of one model request, over all predictors
    and samples. ``report_turns`` is how many turns a report lists; its totals cover all.

    The controller weighs the expected saving of a speculation against its expected waste. A second of a
    wasted run counts as ``wasted_second_weight`` seconds of waiting. Money counts as the seconds it is
    worth if ``second_saved_is_worth``, the price of one second, is set; otherwise it counts only against the
    ``budget``.

    ``turn_ahead`` lets model requests be sent ahead; None, the default, does not. An ahead answer is kept if
    the real request is equal but for the ids of the calls in its history.
    """

    mode: Literal["on", "shadow", "off"] = "on"
    max_speculations: PositiveInt = 8
    report_turns: PositiveInt = 1000
    budget: Budget = Budget()
    wasted_second_weight: NonNegativeFloat = 0.05
    second_saved_is_worth: PositiveFloat | None = None
    turn_ahead: TurnAhead | None = None
