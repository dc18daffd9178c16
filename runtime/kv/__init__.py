"""KV cache management without the bytes: the block pool with its prefix cache, and block hashes."""
