"""KV memory: the arena that holds the bytes, the pool of its blocks, and the keys that find them again."""

from ..xpu.kv_arena import KVArena
from .blocks import BlockPool
from .prefix import BlockHashes, PrefixSalts

__all__ = ["BlockHashes", "BlockPool", "KVArena", "PrefixSalts"]
