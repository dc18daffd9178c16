"""KV memory: the arena that holds the bytes, the pool of its blocks, and the keys that find them again."""
