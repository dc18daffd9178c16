"""The contexts of apps on one runtime: continued by calls, kept beyond the KV arena, compressed."""
