"""Simulated machines: the kernels of a graph on a virtual clock, for hardware that is not here."""
