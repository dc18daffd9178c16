"""The engine: one thread that drives the scheduler and the XPUs, samples, and detokenizes."""
