"""Example agents, readable as tutorials."""
