"""Outputs of tools that ran before the model called them (SpecTools §3.2, Algorithms 4 and 5)."""
