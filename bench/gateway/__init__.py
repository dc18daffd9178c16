"""The gateway bench: what a gateway before an engine adds to an answer."""
