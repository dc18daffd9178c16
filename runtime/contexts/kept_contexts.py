"""What one runtime needs to keep contexts beyond its KV arena: store, salts and swapper."""

from __future__ import annotations

import functools
import hashlib
import re
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from ..config import RuntimeConfig
from ..kv.block_hashes import PrefixSalts
from ..kv.compression.codec import BlockCodec
from ..kv.compression.compression import stored_as_they_are
from ..kv.saved_contexts import Rows
from ..kv.store.changes import disk_errors
from ..kv.store.folder import check_encrypted_alike, make_private_folder
from ..kv.store.keys import KeyFile, KeyringKey, KeySource
from ..kv.store.store import ContextStore
from ..kv.store.usage import StoreQuotas
from ..kv.swap.chunk_saver import ChooseLevels
from ..kv.swap.costs import measure_reads
from ..kv.swap.swapper import Swapper
from .table import ContextTable

_NAME_CHARACTERS: Final = 64


class KeptContexts:
    """The contexts of one model in a folder, in memory, or in neither. Close it after the engine."""

    def __init__(
        self,
        config: RuntimeConfig,
        model_id: str,
        fingerprint: Callable[[], bytes],
        store: ContextStore | None = None,
    ) -> None:
        """Open the folder of the model, if ``config`` names one for contexts, or use ``store``, already open.

        ``fingerprint`` returns that of everything that keys and values depend on (:func:`kv_fingerprint`).

        Raises:
            ContextStoreError: the folder cannot be used, or another runtime uses it.
        """
        self._config = config
        self._owns_store = store is None
        if store is not None:
            store.use_fingerprint(fingerprint())
        else:
            store = open_context_store(config, model_id, fingerprint)
        self.store = store
        """The store of the contexts; None keeps them in memory only."""
        self.salts = PrefixSalts() if store is None else store.salts
        """The salts of block hashes: with a store they are the same after a restart."""
        self.swapper: Swapper | None = None
        """What moves chunks out of the arena and back; None if they stay there."""

    @property
    def memory_bytes(self) -> int:
        """Bytes that chunks may take beside the arena."""
        return 0 if self.swapper is None else self._config.context_memory_bytes

    @property
    def longest_context(self) -> int:
        """The most chunks that a stored context has; 0 if none can be loaded."""
        return 0 if self.store is None else self.store.longest_context

    def swap(
        self, rows: Sequence[Rows], codec: BlockCodec, levels: ChooseLevels = stored_as_they_are
    ) -> None:
        """Create the swapper, for the memory of an arena by cache, where the settings ask for one."""
        memory_bytes, folder = self._config.context_memory_bytes, self._config.context_folder
        if rows and (self.store is not None or memory_bytes):
            self.swapper = Swapper(
                rows,
                codec,
                memory_bytes=memory_bytes,
                store=self.store,
                measure=(lambda: None) if folder is None else functools.partial(measure_reads, folder),
                levels=levels,
                is_current=lambda app, salt: self.salts.is_current(app, salt),
            )

    def forget_deleted(self, table: ContextTable) -> None:
        """Have contexts that are deleted from ``table``, which may outlive this object, leave the memory."""
        if self.swapper is not None:
            table.on_delete(functools.partial(_forget_deleted, weakref.ref(self.swapper)))
        table.on_delete_all(functools.partial(_forget_all, weakref.ref(self)))

    def close(self) -> None:
        """Store what has ended, and close the store unless it was given. May be called again."""
        if self.swapper is not None:
            self.swapper.close()
        if self._owns_store and self.store is not None:
            self.store.close()


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
    folder, key = model_folder(config.context_folder, model_id), _key_source(config.context_key)
    with disk_errors(config.context_folder):
        make_private_folder(config.context_folder)
    check_encrypted_alike(folder, key)
    return ContextStore(
        folder,
        None if fingerprint is None else fingerprint(),
        quotas=StoreQuotas(
            context_app_bytes=config.context_app_bytes, context_disk_bytes=config.context_disk_bytes
        ),
        key=key,
    )


def _key_source(key: Path | str | None) -> KeySource | None:
    """Return where the key of :attr:`RuntimeConfig.context_key` is; all models share it."""
    if isinstance(key, Path):
        return KeyFile(key)
    return None if key is None else KeyringKey("contexts")


def _forget_deleted(swapper: weakref.ref[Swapper], app: str, context_id: str) -> None:
    if (living := swapper()) is not None:
        living.forget_deleted(app)


def _forget_all(kept: weakref.ref[KeptContexts], app: str) -> None:
    if (living := kept()) is None:
        return
    if living.store is None:  # a store has renewed it
        living.salts.renew(app)
    if living.swapper is not None:
        living.swapper.forget_deleted(app)


def model_folder(context_folder: Path, model_id: str) -> Path:
    """Return the folder of one model's contexts; models of different names have different ones."""
    readable = re.sub(r"[^A-Za-z0-9._-]+", "_", model_id).strip("._")[:_NAME_CHARACTERS]
    digest = hashlib.blake2b(model_id.encode(), digest_size=4).hexdigest()
    return context_folder / f"{readable}-{digest}"
