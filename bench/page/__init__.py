"""The bench of the live page: what it renders, and what it costs requests."""
