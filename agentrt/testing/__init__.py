"""Test doubles for agents that speculate: scripted predictors, replays of runs, and virtual time."""

from .replay import RecordedSpeculator, Replayed, replay
from .speculators import ScriptedSpeculator
from .virtual_time import run_in_virtual_time

__all__ = ["RecordedSpeculator", "Replayed", "ScriptedSpeculator", "replay", "run_in_virtual_time"]
