"""Opens the compression of contexts: what the model bears, measured once and stored with its profile."""

from __future__ import annotations

import functools
import hashlib
import logging
from typing import Final

from ..config import RuntimeConfig
from ..heg.store import ProfileStore, fingerprint
from ..kv.compression.codec import BlockCodec
from ..kv.compression.compression import ContextCompression
from ..kv.compression.tolerance import PREFIX_TOKENS, SCORED_TOKENS, CompressionPlan, probe, probe_texts
from ..model.opening import OnOpeningStep, OpeningStep
from ..model.tokenizer import Tokenizer
from ..xpu.kv_arena import KVArena
from ..xpu.loading import LoadedModel
from ..xpu.single_sequence import SingleSequence

SCORED_LAYERS: Final = 4
"""Layers whose attention is measured for the information density."""

_log: Final = logging.getLogger(__name__)


def open_compression(
    config: RuntimeConfig, loaded: LoadedModel, arena: KVArena, tokenizer: Tokenizer, on_step: OnOpeningStep
) -> ContextCompression | None:
    """Return the compression of contexts that ``config`` asks for; None if it asks for none.

    Measures the model if the profile folder has no plan for it, before the engine uses ``arena``.
    """
    if config.context_compression is None:
        return None
    levels = BlockCodec(loaded.layout).levels
    texts = [tokenizer.encode(text) for text in probe_texts()]
    short = any(len(text) < PREFIX_TOKENS + SCORED_TOKENS for text in texts)
    if len(levels) == 1 or short or arena.capacity_tokens < PREFIX_TOKENS + SCORED_TOKENS:
        _log.warning(
            "context_compression: this model cannot be measured, and its contexts are stored as they are. "
            "Give memory_bytes for %d tokens, or set kv_cache_precision='u8'.",
            PREFIX_TOKENS + SCORED_TOKENS,
        )
        return ContextCompression(BlockCodec(loaded.layout), {}, 1.0)

    def measure() -> CompressionPlan:
        on_step(OpeningStep("measuring: how much compression the model bears"))
        return probe(
            SingleSequence(loaded.platform, loaded.graph, arena),
            len(loaded.layout.caches),
            loaded.layout.block_tokens,
            functools.partial(BlockCodec, loaded.layout),
            texts,
            config.context_tolerance,
        )

    name = fingerprint(
        profile=loaded.profile.fingerprint,
        layout=repr(loaded.layout),
        texts=hashlib.sha256(repr(texts).encode()).hexdigest(),
        tolerance=config.context_tolerance,
    )
    store = ProfileStore(config.profile_folder)
    plan = store.stored(f"compression-{name}.json", CompressionPlan, measure)
    return ContextCompression(
        BlockCodec(loaded.layout, plan.bit_plan), plan.losses, config.context_compression
    )
