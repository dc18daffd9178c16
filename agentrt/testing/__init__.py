"""Test doubles for agents that speculate: predictors, endpoints, replays of runs, and virtual time."""

from .endpoint import mock_endpoint
from .replay import RecordedSpeculator, Replayed, replay
from .speculators import ScriptedSpeculator, free_prediction
from .virtual_time import run_in_virtual_time

__all__ = [
    "RecordedSpeculator",
    "Replayed",
    "ScriptedSpeculator",
    "free_prediction",
    "mock_endpoint",
    "replay",
    "run_in_virtual_time",
]
