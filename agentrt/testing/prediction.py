"""Prediction without a cost: instant doubles of models and tools are predicted like slow ones."""

from __future__ import annotations

from contextlib import AbstractContextManager

from ..turns import payoff


def free_prediction() -> AbstractContextManager[None]:
    """Take prediction to cost nothing, in the whole process, inside a ``with`` block.

    A predictor is run only where it is expected to save more time than it costs, so tests whose models and
    tools take no time see hardly any speculation. Inside the block the time of models and tools does not
    matter. Predictors that are wrong are still stopped, and budgets still bind.
    """
    return payoff.free_prediction()
