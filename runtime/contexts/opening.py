"""Opens what keeps the contexts of a loaded model beyond its arena: its folder, memory and compression."""

from __future__ import annotations

import functools
import hashlib
import logging
import re
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import openvino as ov

from ..config import RuntimeConfig
from ..heg.store import ProfileStore, fingerprint
from ..kv.block_hashes import PrefixSalts
from ..kv.compression.codec import BlockCodec
from ..kv.compression.levels import ContextCompression
from ..kv.compression.tolerance import PREFIX_TOKENS, SCORED_TOKENS, CompressionPlan, probe, probe_texts
from ..kv.store.context_database import disk_errors
from ..kv.store.folder import KeyFile, KeyringKey, KeySource, check_encrypted_alike, make_private_folder
from ..kv.store.store import ContextStore
from ..kv.swap.costs import measure_reads
from ..kv.swap.swapper import Swapper
from ..model.directory import ModelDirectory
from ..model.opening import OnOpeningStep, OpeningStep
from ..model.openvino_core import openvino_core
from ..model.tokenizer import Tokenizer
from ..xpu.kv_arena import KVArena
from ..xpu.loading import LoadedModel
from ..xpu.machine import available_memory
from ..xpu.warm_up import SingleSequence
from .table import ContextTable

SCORED_LAYERS: Final = 4
"""Layers whose attention is measured for the information density."""

_SPARE_BYTES: Final = 2**30
"""The most memory that chunks take unasked, of what is free."""
_NAME_CHARACTERS: Final = 64
_SAMPLES: Final = 64
_SAMPLE_BYTES: Final = 4096

_log: Final = logging.getLogger(__name__)


@dataclass(eq=False)
class KeptContexts:
    """The contexts of one model in a folder, in memory, or in neither. Close it after the engine."""

    store: ContextStore | None
    """The store of the contexts; None keeps them in memory only."""
    salts: PrefixSalts
    """The salts of block hashes: with a store they are the same after a restart."""
    owns_store: bool
    swapper: Swapper | None = None
    """What moves chunks out of the arena and back; None if they stay there."""
    memory_bytes: int = 0
    """Bytes beside the arena that were set aside for chunks: none if they take what is spare."""

    @property
    def longest_context(self) -> int:
        """The most chunks that a stored context has; 0 if none can be loaded."""
        return 0 if self.store is None else self.store.longest_context

    def forget_deleted(self, table: ContextTable) -> None:
        """Have contexts that are deleted from ``table``, which may outlive this object, leave the memory."""
        table.on_delete(functools.partial(_forget, weakref.ref(self)))

    def close(self) -> None:
        """Store what has ended, and close the store unless it was given. May be called again."""
        if self.swapper is not None:
            self.swapper.close()
        if self.owns_store and self.store is not None:
            self.store.close()


def _forget(kept: weakref.ref[KeptContexts], app: str, context_id: str | None) -> None:
    if (living := kept()) is None:
        return
    if context_id is None and living.store is None:  # a store has renewed it
        living.salts.renew(app)
    if living.swapper is not None:
        living.swapper.forget_deleted(app)


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
    rows = () if (hybrid := bool(arena.state_rows)) else arena.rows(loaded.platform)
    compression = None if hybrid else _open_compression(config, loaded, arena, tokenizer, on_step)

    def of_kv() -> bytes:
        properties = config.device_properties(keeps_weights=directory.keeps_weights)
        return kv_fingerprint(
            [directory.graph, directory.graph.with_suffix(".bin")],
            tokenizer=tokenizer.fingerprint,
            caches=loaded.layout.caches,
            platform=loaded.platform.name,
            processor=openvino_core().get_property("CPU", "FULL_DEVICE_NAME"),
            properties={name: properties[name] for name in properties if name != "INFERENCE_NUM_THREADS"},
            openvino=ov.__version__,
            codec=0 if compression is None else compression.codec.fingerprint,
        )

    owns_store = store is None
    if store is None:
        store = open_context_store(config, directory.model_id, of_kv)
    else:
        store.use_fingerprint(of_kv())
    if hybrid and store is not None:
        _log.warning("%s is a hybrid model: its contexts are kept as texts only.", directory.model_id)
    kept = KeptContexts(store, PrefixSalts() if store is None else store.salts, owns_store)
    folder, memory_bytes = config.context_folder, config.context_memory_bytes
    spare = memory_bytes is None
    if memory_bytes is None:
        memory_bytes = 0 if store is None else _SPARE_BYTES
    if rows and (store is not None or memory_bytes):
        compression = compression or ContextCompression(BlockCodec(loaded.layout), {}, 1.0, 0.0)
        kept.memory_bytes = 0 if spare else memory_bytes
        kept.swapper = Swapper(
            rows,
            compression.codec,
            memory_bytes=memory_bytes,
            available_memory=available_memory if spare else None,
            store=store,
            measure=(lambda: None) if folder is None else functools.partial(measure_reads, folder),
            levels=compression.levels if compression.ranks else None,
            is_current=lambda app, salt: kept.salts.is_current(app, salt),
        )
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
        return ContextCompression(BlockCodec(loaded.layout), {}, 1.0, 0.0)

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
        BlockCodec(loaded.layout, plan.bit_plan),
        plan.losses,
        config.context_compression,
        config.context_tolerance,
    )


def open_context_store(
    config: RuntimeConfig, model_id: str, fingerprint: Callable[[], bytes] | None = None
) -> ContextStore | None:
    """Return the store of one model's contexts, if ``config`` has a folder for it; None otherwise.

    Without ``fingerprint`` it has their texts only, until :meth:`ContextStore.use_fingerprint`.

    Raises:
        ContextStoreError: the folder cannot be used, or another runtime uses it.
        ContextKeyError: contexts in it are not encrypted with the key of ``config``, or are.
    """
    if config.context_folder is None:
        return None
    folder, key = _model_folder(config.context_folder, model_id), key_source(config.context_key)
    with disk_errors(config.context_folder):
        make_private_folder(config.context_folder)
    check_encrypted_alike(folder, key)
    return ContextStore(
        folder,
        None if fingerprint is None else fingerprint(),
        quotas={
            "context_app_bytes": config.context_app_bytes,
            "context_disk_bytes": config.context_disk_bytes,
        },
        key=key,
    )


def key_source(context_key: Path | Literal["keyring"] | None) -> KeySource | None:
    """Return where the key of contexts is that :attr:`RuntimeConfig.context_key` names."""
    if context_key is None:
        return None
    return KeyFile(context_key) if isinstance(context_key, Path) else KeyringKey("contexts")


def _model_folder(context_folder: Path, model_id: str) -> Path:
    """Return the folder of one model's contexts; models of different names have different ones."""
    readable = re.sub(r"[^A-Za-z0-9._-]+", "_", model_id).strip("._")[:_NAME_CHARACTERS]
    digest = hashlib.blake2b(model_id.encode(), digest_size=4).hexdigest()
    return context_folder / f"{readable}-{digest}"


def kv_fingerprint(files: Iterable[Path], **facts: object) -> bytes:
    """Return a digest of the model in ``files`` and of ``facts``: equal where stored KV can be used.

    The facts are what else the KV depends on: tokenizer, layout of the cache, precision, devices, versions.
    They are told apart by their ``repr``. Of a file count its name, its size, and samples of its content,
    since reading gigabytes takes seconds.

    Raises:
        OSError: a file cannot be read.
    """
    stated = {name: repr(value) for name, value in facts.items()}
    return fingerprint(files=[_facts_of(file) for file in files], **stated).encode()


def _facts_of(file: Path) -> tuple[str, int, str]:
    digest = hashlib.blake2b(digest_size=32)
    size = file.stat().st_size
    with file.open("rb") as stream:
        for sample in range(_SAMPLES):
            stream.seek(max(0, size - _SAMPLE_BYTES) * sample // (_SAMPLES - 1))
            digest.update(stream.read(_SAMPLE_BYTES))
    return file.name, size, digest.hexdigest()
