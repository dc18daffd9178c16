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
    from .config import RuntimeConfig as RuntimeConfig
    from .contexts.context import Context as Context
    from .contexts.context import ContextKind as ContextKind
    from .contexts.service import ContextService as ContextService
    from .contexts.service import ContextStream as ContextStream
    from .contexts.table import ContextTable as ContextTable
    from .engine.engine_group import EngineGroup as EngineGroup
    from .engine.engine_status import EngineStatistics as EngineStatistics
    from .engine.logprobs import TokenLogprobs as TokenLogprobs
    from .engine.output.generation import CallAnswered as CallAnswered
    from .engine.output.generation import Finished as Finished
    from .engine.output.generation import FinishReason as FinishReason
    from .engine.output.generation import Generation as Generation
    from .engine.output.generation import GenerationEvent as GenerationEvent
    from .engine.output.generation import LogprobsDelta as LogprobsDelta
    from .engine.output.generation import Timing as Timing
    from .engine.output.generation import Usage as Usage
    from .engine.output.stream import GenerationStream as GenerationStream
    from .kv.saved_contexts import SavedContexts as SavedContexts
    from .local.service import LocalRuntime as LocalRuntime
    from .local.service import RuntimeStatistics as RuntimeStatistics
    from .model.directory import find_model as find_model
    from .model.opening import OpeningStep as OpeningStep
    from .pool.background.conditions import BackgroundConditions as BackgroundConditions
    from .pool.background.config import BackgroundConfig as BackgroundConfig
    from .pool.background.job import JobStatus as JobStatus
    from .pool.background.service import BackgroundJob as BackgroundJob
    from .pool.background.service import BackgroundService as BackgroundService
    from .pool.embedding_model import EmbeddingModel as EmbeddingModel
    from .pool.embedding_model import Embeddings as Embeddings
    from .pool.embedding_model import Pooling as Pooling
    from .pool.model_pool import ModelPool as ModelPool
    from .pool.model_pool import PoolConfig as PoolConfig
    from .pool.pooled_model import PooledModel as PooledModel
    from .request.options import GenerationOptions as GenerationOptions
    from .request.options import RawPrompt as RawPrompt
    from .request.sampling_params import SamplingParams as SamplingParams
    from .request.window import PromptTruncated as PromptTruncated

_NAMES = {
    ".config": "RuntimeConfig",
    ".contexts.context": "Context ContextKind",
    ".contexts.service": "ContextService ContextStream",
    ".contexts.table": "ContextTable",
    ".engine.engine_group": "EngineGroup",
    ".engine.logprobs": "TokenLogprobs",
    ".engine.output.generation": "CallAnswered FinishReason Finished Generation GenerationEvent LogprobsDelta"
    " Timing Usage",
    ".engine.output.stream": "GenerationStream",
    ".engine.engine_status": "EngineStatistics",
    ".kv.saved_contexts": "SavedContexts",
    ".local.service": "LocalRuntime RuntimeStatistics",
    ".model.directory": "find_model",
    ".model.opening": "OpeningStep",
    ".pool.background.conditions": "BackgroundConditions",
    ".pool.background.config": "BackgroundConfig",
    ".pool.background.job": "JobStatus",
    ".pool.background.service": "BackgroundJob BackgroundService",
    ".pool.embedding_model": "EmbeddingModel Embeddings Pooling",
    ".pool.model_pool": "ModelPool PoolConfig",
    ".pool.pooled_model": "PooledModel",
    ".request.options": "GenerationOptions RawPrompt",
    ".request.sampling_params": "SamplingParams",
    ".request.window": "PromptTruncated",
}
_DEFINED_IN = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = list(_DEFINED_IN)


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
