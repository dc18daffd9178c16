"""Doubles for testing agents that speculate: scripted predictors, and time that passes at once."""

from ._speculators import ScriptedSpeculator
from ._virtual_time import run_in_virtual_time

__all__ = ["ScriptedSpeculator", "run_in_virtual_time"]
