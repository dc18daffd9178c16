"""Published ways to draft from text, on the runtime's engine."""
