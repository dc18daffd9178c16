"""KV memory: the arena that holds the bytes, the pool of its blocks, and the keys that find them again."""

from .arena import KVArena
from .blocks import BlockPool
from .prefix import BlockKeys, PrefixSalts

__all__ = ["BlockKeys", "BlockPool", "KVArena", "PrefixSalts"]
