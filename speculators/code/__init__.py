"""Predictor of the tool calls in code that the main model writes."""
