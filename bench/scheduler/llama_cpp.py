"""llama.cpp's server on a GGUF file, started by the bench in a process of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from ..common.bench_model import BenchModel
from ..common.llama_cpp import LlamaCppServer, share_one_cache
from ..common.machine import describe_machine
from ..common.process import SideProcess
from .peer import Peer, PeerAddress
from .texts import ChatFields

_SLOTS: Final = 16
_SLOT_TOKENS: Final = 2048

LLAMA_CPP_METHOD: Final = (
    "llama.cpp's server (as xllamacpp's wheel has it) has the GGUF file itself and takes its turn under the "
    f"same schedules, over HTTP, which is in its times: {_SLOTS} slots in one f16 cache, without prompt "
    "cache; it knows no priorities. "
)


@contextmanager
def serve_llama_cpp(gguf: str, slots: int, slot_tokens: int) -> Iterator[str]:
    """Yield the address of a server for ``slots`` requests at once, without ``/v1``.

    They share a cache that has room for ``slot_tokens`` tokens of each.
    """
    with SideProcess(_serve, gguf, _threads(), slots, slot_tokens) as process:
        yield str(process.call("url"))


@contextmanager
def llama_cpp_peer(model: BenchModel) -> Iterator[Peer]:
    """Yield llama.cpp's server with the GGUF file of ``model``, and as many requests at once as all sides."""
    with serve_llama_cpp(str(model.gguf), _SLOTS, _SLOT_TOKENS) as url:
        computes = f"the file's weights, f16 KV, {_threads()} threads"
        yield Peer(PeerAddress("llama_cpp", url, computes), ChatFields(model))


def _threads() -> int:
    return describe_machine().usable_cores


def _serve(gguf: str, threads: int, slots: int, slot_tokens: int) -> LlamaCppServer:
    return LlamaCppServer(gguf, threads, slots * slot_tokens, sequences=slots, configure=share_one_cache)
