"""Agent frameworks that agentrt speaks: one public module each, imported by whoever uses it."""
