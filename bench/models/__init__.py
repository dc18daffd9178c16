"""The bench of real models: tool calls, perplexity, opening times, memory."""
