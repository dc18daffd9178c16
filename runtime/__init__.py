"""The local LLM runtime: one model in this process, shared by all requests.

::

    from agentrt.runtime import LocalRuntime

    with LocalRuntime.open("nano") as runtime:
        print(runtime.generate([{"role": "user", "content": "Hello!"}]).text)

The public names load on first use, so that the scheduler, the simulation and the gateway import
without OpenVINO.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from agentrt.concurrency.interrupts import interrupts_deferred
from agentrt.extras import needs_extra

if TYPE_CHECKING:
    from .config import RuntimeConfig
    from .context.saved_contexts import SavedContexts
    from .context.table.context import Context, ContextKind
    from .context.table.table import ContextTable
    from .context_service.service import ContextService, ContextStream
    from .embedding.directory import Pooling
    from .embedding.model import EmbeddingModel, Embeddings
    from .engine.engine_group import EngineGroup
    from .engine.logprobs import TokenLogprobs
    from .engine.statistics import EngineStatistics
    from .opening import OpeningStep
    from .output.generation import (
        CallAnswered,
        Finished,
        FinishReason,
        Generation,
        GenerationEvent,
        LogprobsDelta,
        Timing,
        Usage,
    )
    from .output.stream import GenerationStream
    from .pool.config import PoolConfig
    from .pool.model_pool import ModelPool
    from .pool.pooled_model import PooledModel
    from .request.options import GenerationOptions
    from .request.raw_prompt import RawPrompt
    from .request.sampling_params import SamplingParams
    from .service import LocalRuntime
    from .statistics import RuntimeStatistics

__all__ = [
    "CallAnswered",
    "Context",
    "ContextKind",
    "ContextService",
    "ContextStream",
    "ContextTable",
    "EmbeddingModel",
    "Embeddings",
    "EngineGroup",
    "EngineStatistics",
    "FinishReason",
    "Finished",
    "Generation",
    "GenerationEvent",
    "GenerationOptions",
    "GenerationStream",
    "LocalRuntime",
    "LogprobsDelta",
    "ModelPool",
    "OpeningStep",
    "PoolConfig",
    "PooledModel",
    "Pooling",
    "RawPrompt",
    "RuntimeConfig",
    "RuntimeStatistics",
    "SamplingParams",
    "SavedContexts",
    "Timing",
    "TokenLogprobs",
    "Usage",
]

_DEFINED_IN = {
    "CallAnswered": ".output.generation",
    "Context": ".context.table.context",
    "ContextKind": ".context.table.context",
    "ContextService": ".context_service.service",
    "ContextStream": ".context_service.service",
    "ContextTable": ".context.table.table",
    "EmbeddingModel": ".embedding.model",
    "Embeddings": ".embedding.model",
    "EngineGroup": ".engine.engine_group",
    "EngineStatistics": ".engine.statistics",
    "FinishReason": ".output.generation",
    "Finished": ".output.generation",
    "Generation": ".output.generation",
    "GenerationEvent": ".output.generation",
    "GenerationOptions": ".request.options",
    "GenerationStream": ".output.stream",
    "LocalRuntime": ".service",
    "LogprobsDelta": ".output.generation",
    "ModelPool": ".pool.model_pool",
    "OpeningStep": ".opening",
    "PoolConfig": ".pool.config",
    "PooledModel": ".pool.pooled_model",
    "Pooling": ".embedding.directory",
    "RawPrompt": ".request.raw_prompt",
    "RuntimeConfig": ".config",
    "RuntimeStatistics": ".statistics",
    "SavedContexts": ".context.saved_contexts",
    "SamplingParams": ".request.sampling_params",
    "Timing": ".output.generation",
    "TokenLogprobs": ".engine.logprobs",
    "Usage": ".output.generation",
}


def __getattr__(name: str) -> Any:
    """Load a public name (PEP 562).

    Raises:
        MissingExtraError: the ``runtime`` extra is not installed.
    """
    if name not in _DEFINED_IN:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with needs_extra("runtime"), interrupts_deferred():
        value = getattr(importlib.import_module(_DEFINED_IN[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names, whether they are loaded or not."""
    return sorted({*globals(), *__all__})
