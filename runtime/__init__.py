"""The local LLM runtime: a model in this process, shared by everything that asks it.

from agentrt.runtime import LocalRuntime

with LocalRuntime.open("nano") as runtime:
    print(runtime.generate([{"role": "user", "content": "Hello!"}]).text)
"""

from agentrt.errors import MissingExtraError

try:
    import llguidance as _llguidance  # noqa: F401
    import numpy as _numpy  # noqa: F401
    import openvino as _openvino  # noqa: F401
    import openvino_genai as _openvino_genai  # noqa: F401
    import platformdirs as _platformdirs  # noqa: F401
except ImportError as error:
    raise MissingExtraError(error.name or "openvino", "runtime") from error

from .config import RuntimeConfig
from .engine.sampler import SamplingParams, TokenLogprobs
from .engine.statistics import EngineStatistics
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
from .request.processor import GenerationOptions
from .service import LocalRuntime, RuntimeStatistics

__all__ = [
    "CallAnswered",
    "EngineStatistics",
    "FinishReason",
    "Finished",
    "Generation",
    "GenerationEvent",
    "GenerationOptions",
    "GenerationStream",
    "LocalRuntime",
    "LogprobsDelta",
    "RuntimeConfig",
    "RuntimeStatistics",
    "SamplingParams",
    "Timing",
    "TokenLogprobs",
    "Usage",
]
