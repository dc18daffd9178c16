"""Opens what keeps the contexts of a loaded model: its folder, its memory, its compression."""

from __future__ import annotations

import functools
import hashlib
import logging
from typing import Final

import openvino as ov

from ..config import RuntimeConfig
from ..heg.store import ProfileStore, fingerprint
from ..kv.compression.codec import BlockCodec
from ..kv.compression.compression import ContextCompression
from ..kv.compression.tolerance import PREFIX_TOKENS, SCORED_TOKENS, CompressionPlan, probe, probe_texts
from ..kv.store.fingerprint import kv_fingerprint
from ..kv.store.store import ContextStore
from ..model.directory import ModelDirectory
from ..model.opening import OnOpeningStep, OpeningStep
from ..model.openvino_core import openvino_core
from ..model.tokenizer import Tokenizer
from ..xpu.kv_arena import KVArena
from ..xpu.loading import LoadedModel
from ..xpu.warm_up import SingleSequence
from .kept_contexts import KeptContexts

SCORED_LAYERS: Final = 4
"""Layers whose attention is measured for the information density."""

_log: Final = logging.getLogger(__name__)


def open_contexts(
    config: RuntimeConfig,
    directory: ModelDirectory,
    loaded: LoadedModel,
    arena: KVArena,
    tokenizer: Tokenizer,
    store: ContextStore | None,
    on_step: OnOpeningStep,
) -> KeptContexts:
    """Return what keeps contexts beyond ``arena``, as ``config`` asks for it; ``store`` if it is given.

    Call it before the engine uses ``arena``. Of a hybrid model only texts are kept.

    Raises:
        ContextStoreError: the folder cannot be used, or another runtime uses it.
    """
    hybrid = bool(arena.state_rows)
    compression = None if hybrid else _open_compression(config, loaded, arena, tokenizer, on_step)

    def of_kv() -> bytes:
        properties = config.device_properties()
        return kv_fingerprint(
            [directory.graph, directory.graph.with_suffix(".bin")],
            tokenizer=tokenizer.fingerprint(),
            caches=loaded.layout.caches,
            platform=loaded.platform.name,
            processor=openvino_core().get_property("CPU", "FULL_DEVICE_NAME"),
            properties={name: properties[name] for name in properties if name != "INFERENCE_NUM_THREADS"},
            openvino=ov.__version__,
            codec=0 if compression is None else compression.codec.fingerprint,
        )

    kept = KeptContexts(config, directory.model_id, of_kv, store)
    if not hybrid:
        rows = arena.rows(loaded.platform)
        if compression is None:
            kept.swap(rows, BlockCodec(loaded.layout))
        else:
            kept.swap(rows, compression.codec, compression.levels)
    elif kept.store is not None:
        _log.warning("%s is a hybrid model: its contexts are kept as texts only.", directory.model_id)
    return kept


def _open_compression(
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
