"""KV memory: the arena that holds the bytes and the pool that says which blocks are free."""

from .arena import KVArena
from .blocks import BlockPool

__all__ = ["BlockPool", "KVArena"]
