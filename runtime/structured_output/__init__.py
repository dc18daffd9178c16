"""Structured output: tool choice, the grammar of an answer, and the token masks it gives."""
