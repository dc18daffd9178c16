"""From a caller's request to what the engine runs: validation, rendering, tokenization."""
