"""One model of a pool: its names, its runtime while it is loaded, and what it keeps of apps.

What another app has is found in no model, in the same steps as what does not exist.
"""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Self

from agentrt.errors import ContextNotFoundError, ContextStoreError

from ..config import RuntimeConfig
from ..contexts.context import Context
from ..contexts.opening import open_context_store
from ..contexts.response_chains import ResponseChains, StoredResponse
from ..contexts.table import ContextTable
from ..kv.saved_contexts import SavedContexts
from ..kv.store.store import ContextStore
from ..local.service import LocalRuntime
from ..model.directory import summarize_model


class ModelStatus(enum.StrEnum):
    """Whether a model is in memory."""

    UNLOADED = "unloaded"
    LOADING = "loading"
    LOADED = "loaded"
    UNLOADING = "unloading"


class PooledModel:
    """A model that a :class:`ModelPool` loads and unloads. Only the pool changes it."""

    def __init__(
        self, model: str | os.PathLike[str], config: RuntimeConfig, names: Sequence[str], memory_bytes: int
    ) -> None:
        """``model`` and ``config`` are for :meth:`LocalRuntime.open`; ``memory_bytes`` is an estimate."""
        self.model = model
        self.config = config
        self.names = tuple(names)
        """The names by which requests choose it; answers have the first one."""
        self.status = ModelStatus.UNLOADED
        self.runtime: LocalRuntime | None = None
        """The runtime while the status is ``loaded``."""
        self.memory_bytes = memory_bytes
        """Bytes that it needs."""
        self.memory_estimated = True
        """Whether these are an estimate, without activations: until it was loaded once."""
        self.context_length: int | None = None
        """Maximum number of tokens of prompt and answer together; None until it was loaded once."""
        self.takes_tools = True
        """Whether requests may have tools; true until it was loaded once."""
        self._context_store: ContextStore | None = None
        self.context_table = ContextTable(config.contexts_per_app)
        """The texts of the contexts of its apps, also while it is not loaded."""
        self.contexts: SavedContexts | None = None
        """The KV blocks of these contexts while it is not loaded."""
        self.requests = 0
        """Requests that use it or wait for it."""
        self.loads = 0
        """How many times it was loaded."""
        self.last_used = 0.0
        """When its last request ended, in seconds on the event loop's clock."""
        self.change: asyncio.Task[None] | None = None
        """The task that loads or unloads it, if one does."""
        self.idle_timer: asyncio.TimerHandle | None = None
        """The timer that will unload it, if one runs."""
        self._earlier_counts: Counter[str] = Counter()

    @classmethod
    def find(
        cls, model: str | os.PathLike[str], config: RuntimeConfig | None = None, names: Sequence[str] = ()
    ) -> Self:
        """Return a model that is not loaded. Without ``names`` it has its own.

        Raises:
            ModelNotFoundError, ModelFormatError: there is no such model, or it is damaged.
        """
        config = RuntimeConfig() if config is None else config
        summary = summarize_model(model)
        needed = summary.weights_bytes + config.cache_bytes
        return cls(model, config, names or (summary.model_id,), needed)

    @classmethod
    def of(cls, runtime: LocalRuntime) -> Self:
        """Return the model that ``runtime`` has loaded."""
        model = cls(runtime.model_id, runtime.config, (runtime.model_id,), runtime.memory_bytes)
        model.context_table = runtime.context_table
        model.set_loaded(runtime)
        return model

    @property
    def name(self) -> str:
        """The name that answers have."""
        return self.names[0]

    @property
    def idle(self) -> bool:
        """Whether it is loaded and no request uses it."""
        return self.status is ModelStatus.LOADED and not self.requests

    def set_loaded(self, runtime: LocalRuntime) -> None:
        """Note that ``runtime`` has the model loaded, and its contexts again."""
        self.drop_contexts()
        self.runtime = runtime
        self.status = ModelStatus.LOADED
        self.loads += 1
        self.note_memory(runtime)
        self.context_length = runtime.context_length
        self.takes_tools = runtime.call_format is not None

    def note_memory(self, runtime: LocalRuntime) -> None:
        """Note what the model needs, which ``runtime`` has loaded."""
        self.memory_bytes = runtime.memory_bytes
        self.memory_estimated = False

    @property
    def contexts_for_opening(self) -> Mapping[str, Any]:
        """The arguments of :meth:`LocalRuntime.open` with which it keeps the contexts of its apps."""
        return {"context_table": self.context_table, "context_store": self._context_store}

    @property
    def context_store(self) -> ContextStore | None:
        """The folder of its contexts, if the pool or its runtime has opened one."""
        return self.context_table.store

    def open_contexts(self) -> None:
        """Open the folder of its contexts, if its settings have one and no runtime has opened it.

        Raises:
            ContextStoreError: the folder cannot be used, or another runtime uses it.
        """
        if self.runtime is None and self.config.context_folder is not None:
            self._context_store = open_context_store(self.config, summarize_model(self.model).model_id)
            self.context_table = ContextTable(self.config.contexts_per_app, self._context_store)

    def close_contexts(self) -> None:
        """Delete the saved contexts, and close the folder. May be called again."""
        self.drop_contexts()
        if self._context_store is not None:
            self._context_store.close()

    def delete_contexts(self, app: str) -> None:
        """Delete everything that is kept of ``app``, loaded or not. Blocks for the disk.

        Raises:
            ContextStoreError: some of it cannot be deleted, and is still there.
        """
        try:
            self.context_table.delete_all(app)
        finally:
            if (saved := self.contexts) is not None:
                saved.salts.renew(app)

    def drop_contexts(self) -> None:
        """Delete the saved contexts."""
        if self.contexts is not None:
            self.contexts.close()
            self.contexts = None

    def set_unloaded(self) -> None:
        """Note that the runtime was closed, and keep its counts."""
        assert self.runtime is not None
        self._earlier_counts.update(dataclasses.asdict(self.runtime.statistics().engine))
        self.runtime = None
        self.status = ModelStatus.UNLOADED

    def count(self, name: str) -> float:
        """Return a counter of :class:`EngineStatistics`, of all times that the model was loaded together."""
        present = 0 if self.runtime is None else getattr(self.runtime.statistics().engine, name)
        return float(self._earlier_counts[name] + present)


def find_context(models: Sequence[PooledModel], app: str, context_id: str) -> tuple[PooledModel, Context]:
    """Return a context of ``app`` and its model. Blocks for the disk.

    Raises:
        ContextNotFoundError: ``app`` has no such context.
    """
    for model in models:
        if (context := model.context_table.find(app, context_id)) is not None:
            return model, context
    raise ContextNotFoundError(context_id)


def delete_contexts(models: Sequence[PooledModel], app: str) -> None:
    """Delete everything that is kept of ``app``. Blocks for the disk.

    Raises:
        ContextStoreError: that of a model cannot be deleted, and is still there; those of the others are not.
    """
    failed: ContextStoreError | None = None
    for model in models:
        try:
            model.delete_contexts(app)
        except ContextStoreError as error:
            failed = error
    if failed is not None:
        raise failed


def find_response(
    models: Sequence[PooledModel], app: str, response_id: str
) -> tuple[ResponseChains, StoredResponse] | None:
    """Return a response of ``app`` and those of its model; None if it has none. Blocks for the disk."""
    for model in models:
        chains = ResponseChains(model.context_table)
        if (response := chains.find(app, response_id)) is not None:
            return chains, response
    return None
