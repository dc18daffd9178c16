"""Structured output: tool choice, response format, their grammars, and the token masks they give."""
