"""Doubles for testing agents that speculate: scripted predictors, replays of runs, and virtual time."""

from ._replay import RecordedSpeculator, Replayed, replay
from ._speculators import ScriptedSpeculator
from ._virtual_time import run_in_virtual_time

__all__ = ["RecordedSpeculator", "Replayed", "ScriptedSpeculator", "replay", "run_in_virtual_time"]
