"""Threads, event loops, streams and clocks, as the client half and the service use them."""
