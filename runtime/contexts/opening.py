"""Opens what keeps the contexts of a loaded model: its folder, its memory, its compression."""

from __future__ import annotations

import logging
from typing import Final

import openvino as ov

from ..config import RuntimeConfig
from ..kv.compression.codec import BlockCodec
from ..kv.store.fingerprint import kv_fingerprint
from ..kv.store.store import ContextStore
from ..model.directory import ModelDirectory
from ..model.opening import OnOpeningStep
from ..model.openvino_core import openvino_core
from ..model.tokenizer import Tokenizer
from ..xpu.kv_arena import KVArena
from ..xpu.loading import LoadedModel
from .kept_contexts import KeptContexts
from .measure_compression import open_compression

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
    compression = None if hybrid else open_compression(config, loaded, arena, tokenizer, on_step)

    def fingerprint() -> bytes:
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

    kept = KeptContexts(config, directory.model_id, fingerprint, store)
    if not hybrid:
        rows = arena.rows(loaded.platform)
        if compression is None:
            kept.swap(rows, BlockCodec(loaded.layout))
        else:
            kept.swap(rows, compression.codec, compression.levels)
    elif kept.store is not None:
        _log.warning("%s is a hybrid model: its contexts are kept as texts only.", directory.model_id)
    return kept
