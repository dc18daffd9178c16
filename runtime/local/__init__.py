"""LocalRuntime: one model in this process, from opening it to its answers."""
