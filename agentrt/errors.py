"""Every error agentrt raises on purpose, in one tree.

::

    AgentRTError
    ├── MissingExtraError            an optional dependency is not installed (also an ImportError)
    ├── ConfigurationError           a setting cannot work (also a ValueError)
    ├── NotSpeculableError           this tool must not be run early (also a TypeError)
    ├── SpeculationError                an early run came to nothing that the real call could be answered by
    ├── NotRecordedError             a replay came to what the recording knows nothing of
    ├── RecordedToolError            in a replay, what a tool raised when the run was recorded
    ├── ModelError
    │   ├── ModelNotFoundError       no model at that name or path
    │   ├── ModelFormatError         something is there, but it is not a usable model
    │   └── ProfileFormatError       what was once measured of a model cannot be read any more
    ├── RequestError                 this request cannot be served as it stands (also a ValueError)
    │   ├── InvalidRequestError      a field has a wrong value; ``.field`` names it
    │   ├── PromptTooLongError       the prompt exceeds the model's context or the KV arena
    │   └── DeadlineExceededError    the request's own deadline passed (also a TimeoutError)
    ├── PredictorError
    │   ├── PredictorPausedError     its endpoint wants to be left alone; ``.seconds`` says how long
    │   └── HistoryStoreError        what a predictor has learned cannot be kept
    │       ├── HistoryCorruptError  the file is damaged or is something else
    │       └── HistoryLockedError   another process holds the file
    ├── WorkloadError                recorded conversations cannot be loaded
    │   ├── WorkloadNotFoundError    there are none at that path
    │   └── WorkloadFormatError      a line is not what it should be; ``.path`` and ``.line`` say which
    ├── EngineError
    │   ├── RuntimeClosedError       the runtime was closed before or during the request
    │   ├── EngineFailedError        the engine thread died; ``__cause__`` says why
    │   ├── OverloadedError          too many requests wait, and this one is the least urgent
    │   ├── KernelFailedError        what this request needs computed failed or hung, again and again
    │   └── DeviceLostError          a device disappeared or cannot be brought back; ``.device`` names it
    └── BenchPeerError               a server that a bench compares with does not do its part

Each message ends with what to do next. Cancellation is not an error: it stays
:class:`asyncio.CancelledError` (or a generation whose ``finish_reason`` is ``"cancelled"``).
"""

from __future__ import annotations

import os
from typing import Any

__all__ = [
    "AgentRTError",
    "BenchPeerError",
    "ConfigurationError",
    "DeadlineExceededError",
    "DeviceLostError",
    "EngineError",
    "EngineFailedError",
    "HistoryCorruptError",
    "HistoryLockedError",
    "HistoryStoreError",
    "InvalidRequestError",
    "KernelFailedError",
    "MissingExtraError",
    "ModelError",
    "ModelFormatError",
    "ModelNotFoundError",
    "NotRecordedError",
    "NotSpeculableError",
    "OverloadedError",
    "PredictorError",
    "PredictorPausedError",
    "ProfileFormatError",
    "PromptTooLongError",
    "RecordedToolError",
    "RequestError",
    "RuntimeClosedError",
    "SpeculationError",
    "WorkloadError",
    "WorkloadFormatError",
    "WorkloadNotFoundError",
]


class AgentRTError(Exception):
    """Base of every error that agentrt raises on purpose. All of them can be pickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Restore from the finished message: the default would call ``__init__`` with it once more."""
        return _restore, (type(self), self.args, self.__dict__)


def _restore(kind: type[AgentRTError], args: tuple[Any, ...], state: dict[str, Any]) -> AgentRTError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


class MissingExtraError(AgentRTError, ImportError):
    """An optional dependency is not installed; the message is the exact line that installs it."""

    def __init__(self, module: str, extra: str) -> None:
        """Name the missing ``module`` and the ``extra`` that brings it."""
        super().__init__(f"{module} is not installed. Run: pip install 'agentrt[{extra}]'")
        self.module = module
        self.extra = extra


class ConfigurationError(AgentRTError, ValueError):
    """A setting cannot work; the message says which one and what would."""


class NotSpeculableError(AgentRTError, TypeError):
    """The tool cannot safely be run before the model asks for it; the message says why."""


class SpeculationError(AgentRTError):
    """An early run came to nothing that the real call could be answered by; the report says so."""


class NotRecordedError(AgentRTError):
    """A replay came to a call, or to a state of the world, that the recording knows nothing of."""


class RecordedToolError(AgentRTError):
    """Stands in a replay for what a tool raised when the run was recorded."""


class ModelError(AgentRTError):
    """Base of everything that can be wrong with a model on disk."""


class ModelNotFoundError(ModelError, FileNotFoundError):
    """There is no model under the given name or path."""


class ModelFormatError(ModelError):
    """A model directory exists but is incomplete, truncated or of an unsupported kind."""


class ProfileFormatError(ModelError):
    """A stored profile of a model is damaged; it can be deleted and measured again."""


class RequestError(AgentRTError, ValueError):
    """Base of everything that makes one request impossible while the runtime stays healthy."""


class InvalidRequestError(RequestError):
    """A field of the request has a wrong value."""

    def __init__(self, field: str, message: str) -> None:
        """``field`` is the offending parameter's name; ``message`` says what is allowed."""
        super().__init__(f"{field}: {message}")
        self.field = field


class PromptTooLongError(RequestError):
    """The prompt does not fit; nothing was truncated and nothing was run."""

    def __init__(self, prompt_tokens: int, limit_tokens: int, limited_by: str, fix: str) -> None:
        """``limited_by`` names the limit that was hit, ``fix`` says how to raise it or get under it."""
        super().__init__(
            f"the prompt has {prompt_tokens} tokens, but {limited_by} holds {limit_tokens}. {fix}"
        )
        self.prompt_tokens = prompt_tokens
        self.limit_tokens = limit_tokens


class DeadlineExceededError(RequestError, TimeoutError):
    """The deadline that the request came with passed before it was answered; what it held is free again."""


class PredictorError(AgentRTError):
    """Base of what keeps a predictor from guessing; the main call never notices it."""


class PredictorPausedError(PredictorError):
    """The predictor's endpoint has said when it may be asked again, and that time has not come."""

    def __init__(self, predictor: str, seconds: float) -> None:
        """``seconds`` is how long it will not be asked."""
        super().__init__(f"{predictor} is over its rate limit and is asked again in {seconds:.0f} s. Wait.")
        self.seconds = seconds


class HistoryStoreError(PredictorError, OSError):
    """The file in which a predictor keeps what it has learned cannot be used."""


class HistoryCorruptError(HistoryStoreError):
    """The file is damaged, or it is not a history; it has not been changed."""


class HistoryLockedError(HistoryStoreError):
    """Another process holds the file."""


class WorkloadError(AgentRTError):
    """Base of everything that can be wrong with recorded conversations on disk."""


class WorkloadNotFoundError(WorkloadError, FileNotFoundError):
    """There are no recorded conversations under the given path."""


class WorkloadFormatError(WorkloadError, ValueError):
    """A line of a file of recorded conversations is not what it should be."""

    def __init__(self, path: str | os.PathLike[str], line: int, problem: str) -> None:
        """``line`` counts from 1; 0 stands for the whole file."""
        super().__init__(f"{os.fspath(path)}, line {line}: {problem}. Restore the file.")
        self.path = os.fspath(path)
        self.line = line


class EngineError(AgentRTError):
    """Base of faults of the running engine, as opposed to faults of one request."""


class RuntimeClosedError(EngineError):
    """The runtime was closed; open it again to go on."""


class EngineFailedError(EngineError):
    """The engine thread stopped on an unexpected fault; ``__cause__`` carries it."""


class OverloadedError(EngineError):
    """Too many requests wait. The engine is well; try again later, or with a higher priority."""


class KernelFailedError(EngineError):
    """The kernels of this request failed or hung several times. Others may go on undisturbed."""


class DeviceLostError(EngineError):
    """A device that ran kernels is gone, or could not be set up again after a kernel hung."""

    def __init__(self, device: str, reason: str) -> None:
        """``device`` is OpenVINO's name of it; ``reason`` is what it said last."""
        super().__init__(
            f"{device} is lost: {reason} Close this runtime and open it again, "
            'with platform="cpu" if the device does not come back.'
        )
        self.device = device


class BenchPeerError(AgentRTError):
    """A server that a bench compares agentrt with is not there, or does not do the same work."""

    def __init__(self, name: str, url: str, problem: str) -> None:
        """``name`` is the peer's, ``url`` where it was looked for; ``problem`` follows both in a sentence."""
        super().__init__(
            f"{name} at {url} {problem}. Start it as docs/scheduling.md says, and the bench again."
        )
        self.url = url
