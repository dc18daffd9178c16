"""Several models in one process: loaded when they are needed, within one memory budget."""
