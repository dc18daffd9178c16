"""The sides that the tool cache bench compares: the same agent, with more or less of SpecTools."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Optimizations:
    """What an engine does with submitted tool outputs (SpecTools §3.2); the bench can switch off both."""

    verifies_calls: bool = True
    """O2: the call of a cached output is drafted and verified in one forward pass."""
    answers_calls: bool = True
    """O3: a call with a cached output is answered in the engine, and decoding continues."""
    takes_predicted_calls: bool = False
    """Whether calls are drafted once they are predicted, before there is an output. Not in the paper."""


@dataclass(frozen=True, slots=True)
class Side:
    """How an agent runs its tasks."""

    name: str
    prefix_cached: bool = True
    """Whether a request finds the prefix that the task's earlier request has left."""
    speculates: bool = True
    """O1: the predicted tool runs beside the model (Algorithm 2)."""
    submits: bool = True
    """Whether its result is submitted to the engine (Algorithm 4)."""
    optimizations: Optimizations = Optimizations()


VANILLA = Side("vanilla", prefix_cached=False, speculates=False, submits=False)
PREFIX_CACHED = Side("prefix-cached", speculates=False, submits=False)
CLIENT_SIDE = Side("client-side", submits=False)
CALLS_DRAFTED = Side(
    "client-side, calls drafted", submits=False, optimizations=Optimizations(True, True, True)
)
ENGINE_SIDE = Side("engine-side")
O2_ONLY = Side("engine-side, O2 only", optimizations=Optimizations(answers_calls=False))
O3_ONLY = Side("engine-side, O3 only", optimizations=Optimizations(verifies_calls=False))

SIDES = (VANILLA, PREFIX_CACHED, CLIENT_SIDE, CALLS_DRAFTED, ENGINE_SIDE)
"""Figure 8, with both of its baselines, and the client side before an engine that drafts predicted calls."""
ENGINE_SIDES = (O2_ONLY, O3_ONLY, ENGINE_SIDE)
"""The engine with each of its optimizations, and with both."""
