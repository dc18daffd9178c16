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
from .generation import (
    CallAnswered,
    Finished,
    FinishReason,
    Generation,
    GenerationEvent,
    LogprobsDelta,
    Timing,
    Usage,
)
from .preparation import GenerationOptions
from .running import RunningGeneration
from .sampling import SamplingParams, TokenLogprobs
from .service import LocalRuntime, RuntimeStatistics
from .statistics import EngineStatistics

__all__ = [
    "CallAnswered",
    "EngineStatistics",
    "FinishReason",
    "Finished",
    "Generation",
    "GenerationEvent",
    "GenerationOptions",
    "LocalRuntime",
    "LogprobsDelta",
    "RunningGeneration",
    "RuntimeConfig",
    "RuntimeStatistics",
    "SamplingParams",
    "Timing",
    "TokenLogprobs",
    "Usage",
]
