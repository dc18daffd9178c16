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
    from .contexts.context import Context, ContextKind
    from .contexts.service import ContextService, ContextStream
    from .contexts.table import ContextTable
    from .engine.engine_group import EngineGroup
    from .engine.logprobs import TokenLogprobs
    from .engine.output.generation import (
        CallAnswered,
        Finished,
        FinishReason,
        Generation,
        GenerationEvent,
        LogprobsDelta,
        Timing,
        Usage,
    )
    from .engine.output.stream import GenerationStream
    from .engine.statistics import EngineStatistics
    from .kv.saved_contexts import SavedContexts
    from .local.service import LocalRuntime, RuntimeStatistics
    from .model.directory import find_model
    from .model.opening import OpeningStep
    from .pool.embedding_model import EmbeddingModel, Embeddings, Pooling
    from .pool.model_pool import ModelPool, PoolConfig
    from .pool.pooled_model import PooledModel
    from .request.options import GenerationOptions
    from .request.raw_prompt import RawPrompt
    from .request.sampling_params import SamplingParams

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
    "find_model",
]

_DEFINED_IN = {
    "CallAnswered": ".engine.output.generation",
    "Context": ".contexts.context",
    "ContextKind": ".contexts.context",
    "ContextService": ".contexts.service",
    "ContextStream": ".contexts.service",
    "ContextTable": ".contexts.table",
    "EmbeddingModel": ".pool.embedding_model",
    "Embeddings": ".pool.embedding_model",
    "EngineGroup": ".engine.engine_group",
    "EngineStatistics": ".engine.statistics",
    "FinishReason": ".engine.output.generation",
    "Finished": ".engine.output.generation",
    "Generation": ".engine.output.generation",
    "GenerationEvent": ".engine.output.generation",
    "GenerationOptions": ".request.options",
    "GenerationStream": ".engine.output.stream",
    "LocalRuntime": ".local.service",
    "LogprobsDelta": ".engine.output.generation",
    "ModelPool": ".pool.model_pool",
    "OpeningStep": ".model.opening",
    "PoolConfig": ".pool.model_pool",
    "PooledModel": ".pool.pooled_model",
    "Pooling": ".pool.embedding_model",
    "RawPrompt": ".request.raw_prompt",
    "RuntimeConfig": ".config",
    "RuntimeStatistics": ".local.service",
    "SavedContexts": ".kv.saved_contexts",
    "SamplingParams": ".request.sampling_params",
    "Timing": ".engine.output.generation",
    "TokenLogprobs": ".engine.logprobs",
    "Usage": ".engine.output.generation",
    "find_model": ".model.directory",
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
