"""The scheduler bench: reactive latency beside background load."""
