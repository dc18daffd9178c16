"""The models of one process: loaded by their first request, unloaded when idle or for another model."""

from __future__ import annotations

import asyncio
import copy
import functools
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, contextmanager
from typing import Any, Final, Self

from pydantic import Field

from agentrt.errors import (
    AgentRTError,
    ConfigurationError,
    ModelBudgetError,
    ModelLoadError,
    ModelTooLargeError,
    RuntimeClosedError,
)
from agentrt.settings import Settings

from ..engine.engine_group import EngineGroup
from ..local.service import LocalRuntime
from ..model.opening import OnOpeningStep, OpeningStep, ignore_step
from ..xpu.machine import available_memory
from .pooled_model import ModelStatus, PooledModel


class PoolConfig(Settings, strict=True):
    """Limits on what a pool keeps loaded. Immutable."""

    memory_budget_bytes: int | None = Field(default=None, gt=0)
    """Bytes of all loaded models together: weights, activations and KV caches. None takes the memory that is
    available when the pool is created."""

    idle_unload_s: float | None = Field(default=None, gt=0)
    """A model without requests is unloaded after this many seconds; None leaves it loaded until its memory is
    needed."""


_log: Final = logging.getLogger(__name__)


class ModelPool(AbstractContextManager["ModelPool"]):
    """Models that share a memory budget. For one event loop; call :meth:`close` when it has ended.

    A request names its model (:meth:`find`), holds it (:meth:`hold`) and gets its runtime (:meth:`load`)::

        with pool.hold(model):
            runtime = await pool.load(model)

    Models are loaded one at a time, on a thread: each measures and compiles with all cores. Those that are
    loaded go on serving meanwhile. Where the budget is too small for one more, the least recently used model
    without requests is unloaded first.
    """

    def __init__(
        self,
        models: Sequence[PooledModel],
        config: PoolConfig | None = None,
        *,
        open_runtime: Callable[..., LocalRuntime] = LocalRuntime.open,
        open_contexts: Callable[[PooledModel], None] = PooledModel.open_contexts,
    ) -> None:
        """``open_runtime`` loads a model; it is called as :meth:`LocalRuntime.open` is.

        ``open_contexts`` opens the contexts of a model before that.

        Raises:
            ConfigurationError: two models have one name, or the budget is too small for one of them.
            ContextStoreError: the folder of a model's contexts cannot be used, or another runtime uses it.
        """
        config = config or PoolConfig()
        self.models = tuple(models)
        """All models, in the order in which they were given."""
        self._by_name = {name: model for model in models for name in model.names}
        self._open_runtime = functools.partial(open_runtime, group=EngineGroup())
        self._idle_unload_s = config.idle_unload_s
        budget = config.memory_budget_bytes or available_memory()
        self.memory_budget_bytes = float("inf") if budget is None else budget
        self._one_load = asyncio.Lock()
        self._stays_loaded = False
        self._stopping = False
        names = [name for model in models for name in model.names]
        if len(names) != len(self._by_name):
            twice = min(name for name in names if names.count(name) > 1)
            raise ConfigurationError(
                f"two models are named {twice!r}. Give one of them another name: "
                "--served-model-name NAME=MODEL (names in Python)."
            )
        if not names:
            raise ConfigurationError("a pool needs a model. Give at least one.")
        self._check_budget(*(model for model in models if model.runtime is None))
        with ExitStack() as opened:
            for model in models:
                opened.callback(model.close_contexts)
                open_contexts(model)
            opened.pop_all()

    @classmethod
    def of(cls, runtime: LocalRuntime) -> Self:
        """Return a pool of the one model that ``runtime`` has loaded; it stays loaded."""
        pool = cls((PooledModel.of(runtime),))
        pool.memory_budget_bytes = float("inf")
        pool._stays_loaded = True
        return pool

    def close(self) -> None:
        """Close the runtimes of all loaded models, and the folders of contexts.

        Call it without a running event loop.
        """
        for model in self.models:
            if model.runtime is not None:
                model.runtime.close()
            model.close_contexts()

    def __exit__(self, *error: object) -> None:
        """Close the pool."""
        self.close()

    def open_first(self, on_step: OnOpeningStep = ignore_step) -> None:
        """Load the first model on this thread, before the event loop runs.

        Raises:
            ConfigurationError: the model needs more than the budget; see also :meth:`LocalRuntime.open`.
            ModelError: see :meth:`LocalRuntime.open`.
        """
        first = self.models[0]
        runtime = self._open_runtime(first.model, first.config, on_step=on_step, **first.contexts_for_opening)
        first.note_memory(runtime)
        try:
            self._check_budget(first)
        except ConfigurationError:
            runtime.close()
            raise
        first.set_loaded(runtime)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Unload idle models inside the block; at its end, stop loading and wait until nothing changes."""
        for model in self.models:
            self._start_idle_timer(model)
        try:
            yield
        finally:
            self._stopping = True
            for model in self.models:
                self._stop_idle_timer(model)
            changes = [model.change for model in self.models if model.change is not None]
            await asyncio.gather(*changes, return_exceptions=True)

    def find(self, name: str | None) -> PooledModel | None:
        """Return the model of this name, the first one for None; None if there is no such model."""
        return self.models[0] if name is None else self._by_name.get(name)

    @contextmanager
    def hold(self, model: PooledModel) -> Iterator[None]:
        """Keep ``model`` from being unloaded until the block ends."""
        model.requests += 1
        self._stop_idle_timer(model)
        try:
            yield
        finally:
            model.requests -= 1
            model.last_used = asyncio.get_running_loop().time()
            self._start_idle_timer(model)

    async def load(self, model: PooledModel) -> LocalRuntime:
        """Return the runtime of ``model``, which the caller holds, and load it first unless it is loaded.

        Requests that wait for one model wait for one load. Cancelling one of them does not cancel the load.

        Raises:
            ModelBudgetError: the models that are in use leave too little memory.
            ModelTooLargeError: the model needs more than the whole budget.
            ModelLoadError: the model cannot be opened. The next request tries it again.
            RuntimeClosedError: the pool is stopping.
        """
        while model.runtime is None or model.status is not ModelStatus.LOADED:
            if model.change is None:
                self._begin(model, ModelStatus.LOADING, self._load(model))
            assert model.change is not None
            try:
                await asyncio.shield(model.change)
            except AgentRTError as error:
                raise copy.copy(error) from error  # each request raises an error of its own
        return model.runtime

    async def unload(self, model: PooledModel) -> bool:
        """Unload ``model``; return whether it is not loaded then.

        A model that requests use stays loaded, as does that of :meth:`of`.
        """
        if model.idle and not self._stays_loaded:
            self._begin_unload(model)
        if model.status is ModelStatus.UNLOADING:
            assert model.change is not None
            await asyncio.shield(model.change)
        return model.status is ModelStatus.UNLOADED

    async def _load(self, model: PooledModel) -> None:
        try:
            async with self._one_load:
                self._check_not_stopping()
                await self._make_room_for(model)
                runtime = await asyncio.to_thread(
                    self._open_runtime,
                    model.model,
                    model.config,
                    on_step=self._check_not_stopping,
                    contexts=model.contexts,
                    **model.contexts_for_opening,
                )
                model.note_memory(runtime)
                try:
                    await self._make_room_for(model)  # what it really needs
                except (ModelBudgetError, ModelTooLargeError):
                    await asyncio.to_thread(runtime.close)
                    raise
                model.set_loaded(runtime)
        except (ModelBudgetError, ModelTooLargeError, RuntimeClosedError):
            raise
        except Exception as error:
            raise ModelLoadError(model.name, str(error)) from error
        finally:
            if model.status is ModelStatus.LOADING:
                model.status = ModelStatus.UNLOADED

    async def _make_room_for(self, model: PooledModel) -> None:
        """Unload idle models, the least recently used first, until ``model`` fits the budget.

        Raises:
            ModelBudgetError: it does not fit beside the models that are in use.
            ModelTooLargeError: it does not fit alone. No model is unloaded for it.
        """
        self._check_size(model)
        while True:
            others = [other for other in self.models if other is not model and other.runtime is not None]
            used = sum(other.memory_bytes for other in others)
            if used + model.memory_bytes <= self.memory_budget_bytes:
                return
            unloading = next((other.change for other in others if other.change is not None), None)
            if unloading is None:
                idle = [other for other in others if other.idle]
                if not idle:
                    raise ModelBudgetError(model.name, model.memory_bytes, self.memory_budget_bytes, used)
                unloading = self._begin_unload(min(idle, key=lambda other: other.last_used))
            await asyncio.shield(unloading)

    def _begin_unload(self, model: PooledModel) -> asyncio.Task[None]:
        self._stop_idle_timer(model)
        return self._begin(model, ModelStatus.UNLOADING, self._unload(model))

    async def _unload(self, model: PooledModel) -> None:
        assert model.runtime is not None
        try:
            model.contexts = await asyncio.to_thread(model.runtime.suspend)
        except OSError as error:
            _log.warning("%s: its contexts could not be saved and are computed again: %s", model.name, error)
        finally:
            model.set_unloaded()

    def _begin(
        self, model: PooledModel, status: ModelStatus, work: Coroutine[Any, Any, None]
    ) -> asyncio.Task[None]:
        """Start the task that does ``work``, which loads or unloads ``model``."""

        async def change() -> None:
            try:
                await work
            except Exception as error:
                _log.warning("%s: %s", model.name, error)  # the requests that waited may be gone
                raise
            finally:
                # Within the task: awaiting a task that has ended gives no other callback the time to run, so
                # requests that still saw it here would wait for it again and again.
                model.change = None

        model.status = status
        model.change = asyncio.get_running_loop().create_task(change())
        # Keeps asyncio from reporting an error that has been logged, where no request waits for it.
        model.change.add_done_callback(lambda task: task.cancelled() or task.exception())
        return model.change

    def _start_idle_timer(self, model: PooledModel) -> None:
        if self._idle_unload_s is None or not model.idle or self._stopping:
            return
        loop = asyncio.get_running_loop()
        model.idle_timer = loop.call_later(self._idle_unload_s, self._begin_unload, model)

    def _stop_idle_timer(self, model: PooledModel) -> None:
        if model.idle_timer is not None:
            model.idle_timer.cancel()
            model.idle_timer = None

    def _check_not_stopping(self, _: OpeningStep | None = None) -> None:
        """End an opening that nobody waits for any more; called on the thread that opens, too."""
        if self._stopping:
            raise RuntimeClosedError("the models are being closed. Open them again to go on.")

    def _check_budget(self, *models: PooledModel) -> None:
        """Refuse settings with which one of ``models`` can never be loaded."""
        for model in models:
            try:
                self._check_size(model)
            except ModelTooLargeError as error:
                raise ConfigurationError(str(error)) from error

    def _check_size(self, model: PooledModel) -> None:
        if model.memory_bytes > self.memory_budget_bytes:
            budget, estimated = self.memory_budget_bytes, model.memory_estimated
            raise ModelTooLargeError(model.name, model.memory_bytes, budget, estimated=estimated)
