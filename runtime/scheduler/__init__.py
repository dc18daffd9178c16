"""Decides which kernel runs next on which XPU. No threads, no clock, no I/O."""
