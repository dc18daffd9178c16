"""Adapters of agent frameworks, one public module each. :mod:`agentrt.adapting` is what they are made of."""
