"""Speculators: who guesses the next tool call."""
