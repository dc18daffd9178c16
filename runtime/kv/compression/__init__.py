"""Tolerance-aware compression of KV blocks (LLMS §3.2): codec, information density, levels, probe."""
