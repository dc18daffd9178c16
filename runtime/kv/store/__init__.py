"""Contexts on disk: their text, which is kept, and KV chunks, which can be recomputed."""
