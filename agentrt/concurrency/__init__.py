"""Threads, event loops, streams and the clock, for the client half and the runtime."""
