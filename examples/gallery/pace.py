"""How fast the demonstration model may be in the examples."""

TOKENS_PER_SECOND = 50
"""Nano writes more than a thousand tokens per second, too fast to hide a tool behind. The examples hold it to
the pace of the models that people work with; models that you name run as fast as they are."""
