"""Speculable tools, their speculations, and how the real call claims a speculation."""
