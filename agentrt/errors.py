"""The errors that agentrt raises, in one tree.

::

    AgentRTError
    ├── MissingExtraError, ConfigurationError, StructuredOutputError
    ├── NotSpeculableError, SpeculationError, NotRecordedError
    ├── ModelError
    │   ├── ModelNotFoundError, ModelFormatError, ModelDownloadError, ProfileFormatError
    │   └── ModelLoadError, ModelBudgetError, ModelTooLargeError        of a pool
    ├── RequestError
    │   ├── InvalidRequestError, PromptTooLongError, DeadlineExceededError
    │   ├── JobQuotaError, JobFailedError                               of background jobs
    │   └── ContextNotFoundError, ContextQuotaError, ContextBusyError
    ├── PredictorError
    │   └── HistoryStoreError
    │       └── HistoryCorruptError, HistoryLockedError
    ├── ContextStoreError
    │   └── ContextKeyError, ContextDamagedError, ChunkDamagedError
    ├── ChunkFormatError
    ├── EngineError
    │   ├── RuntimeClosedError, ForkedProcessError, EngineFailedError
    │   ├── OverloadedError, LogitsError                                of one request
    │   └── GraphLoadError
    ├── WorkloadError
    │   └── WorkloadNotFoundError, WorkloadFormatError
    └── BenchPeerError, BenchProcessError

All of them are public. Each message ends with what to do next. Cancellation is not an error: it stays
:class:`asyncio.CancelledError` (or a generation whose ``finish_reason`` is ``"cancelled"``).
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any


class AgentRTError(Exception):
    """Base of all errors of agentrt. All of them can be pickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Restore from the finished message: the default would call ``__init__`` with it once more."""
        return _restore, (type(self), self.args, self.__dict__)


def _restore(kind: type[AgentRTError], args: tuple[Any, ...], state: dict[str, Any]) -> AgentRTError:
    # The first base with a __new__ of its own may not be the one that lays out the object.
    new = OSError.__new__ if issubclass(kind, OSError) else Exception.__new__
    error: AgentRTError = new(kind)
    error.args = args
    error.__dict__.update(state)
    return error


class MissingExtraError(AgentRTError, ImportError):
    """An optional dependency is not installed; the message is the exact line that installs it."""

    def __init__(self, module: str, extra: str, *, requirement: str | None = None) -> None:
        """``module`` is missing; ``extra`` is the extra that installs it, or ``requirement`` is what does."""
        needed = f"agentrt[{extra}]" if requirement is None else requirement
        super().__init__(f"{module} is not installed. Run: pip install '{needed}'")


class ConfigurationError(AgentRTError, ValueError):
    """A setting cannot work; the message names it and gives one that does."""


class NotSpeculableError(AgentRTError, TypeError):
    """The tool cannot be run speculatively; the message says why."""


class SpeculationError(AgentRTError):
    """The speculative run failed or was stopped; the real call runs the tool itself."""


class NotRecordedError(AgentRTError):
    """A replay needs a call, in some state of the world, that was not recorded."""


class StructuredOutputError(AgentRTError, ValueError):
    """The answer has no value of the requested schema: it was cut off, or the model answered otherwise."""

    def __init__(self, problem: str, finish_reason: str) -> None:
        """``problem`` is sentences that end with what to do; ``finish_reason`` is that of the answer."""
        super().__init__(problem)
        self.finish_reason = finish_reason


class ModelError(AgentRTError):
    """Base of errors of a model on disk."""


class ModelNotFoundError(ModelError, FileNotFoundError):
    """There is no model with the given name or path."""


class ModelFormatError(ModelError):
    """A model directory exists but is incomplete, truncated or of an unsupported kind."""


class ModelLoadError(ModelError):
    """A model of a pool could not be opened; the next request for it tries again."""

    def __init__(self, model: str, reason: str) -> None:
        """``model`` is its name; ``reason`` is the message of the error that ended the opening."""
        super().__init__(f"the model {model!r} could not be loaded: {reason} Then send the request again.")
        self.model = model


class ModelBudgetError(ModelError):
    """A model of a pool does not fit the memory budget beside the models that are in use."""

    def __init__(self, model: str, needed: float, budget: float, used: float) -> None:
        """``needed``, ``budget`` and ``used`` (by models with requests) are bytes."""
        super().__init__(
            f"the model {model!r} needs {_mib(needed)} MiB, but models in use have {_mib(used)} of the "
            f"{int(budget // 2**20)} MiB of the memory budget. Try again when their requests have ended, or "
            "raise the budget."
        )


class ModelTooLargeError(ModelError):
    """A model of a pool needs more than the whole memory budget, so that it cannot be loaded."""

    def __init__(self, model: str, needed: float, budget: float, *, estimated: bool = False) -> None:
        """``needed`` and ``budget`` are bytes.

        ``needed`` is ``estimated`` until the model was loaded once: its activations are not in it.
        """
        if estimated:
            need = (
                f"{_mib(needed)} MiB for its weights and KV cache, and as much as these or more for its "
                "activations"
            )
            advice = f"{_mib(2 * needed)} or more; if it needs still more, the next error says how much"
        else:
            need = f"{_mib(needed)} MiB for its weights, activations and KV cache"
            advice = f"{_mib(needed)} or more"
        super().__init__(
            f"{model} needs {need}. The memory budget is {int(budget // 2**20)} MiB. Give "
            f"--memory-budget-mib {advice} (memory_budget_bytes in Python), or choose a smaller model or KV "
            "cache."
        )


def _mib(size: float) -> int:
    """Return a number of bytes in MiB, rounded up: as a limit, it suffices."""
    return math.ceil(size / 2**20)


class ModelDownloadError(ModelError):
    """A model cannot be downloaded, or differs from its stated digest."""


class ProfileFormatError(ModelError):
    """A stored profile of a model is damaged; it can be deleted and measured again."""


class RequestError(AgentRTError, ValueError):
    """Base of errors of one request, while the runtime stays healthy."""


class InvalidRequestError(RequestError):
    """A field of the request has a wrong value."""

    def __init__(self, field: str, message: str) -> None:
        """``field`` is the offending parameter's name; ``message`` says what is allowed."""
        super().__init__(f"{field}: {message}")
        self.field = field
        self.reason = message


class PromptTooLongError(RequestError):
    """The prompt does not fit. Nothing was truncated and nothing was run."""

    def __init__(
        self,
        prompt_tokens: int,
        limit_tokens: int,
        limited_by: str,
        raise_limit: str = "",
        *,
        shorten: str = "Shorten the prompt or drop old messages",
        at_least: bool = False,
        field: str = "messages",
    ) -> None:
        """``limited_by`` names the limit.

        ``shorten`` says how to stay under it and ``raise_limit`` how to raise it, as two halves of one
        sentence; ``field`` is the parameter that has the prompt. ``at_least`` says that only
        ``prompt_tokens`` were counted, and the prompt has more.
        """
        counted = f"at least {prompt_tokens}" if at_least else prompt_tokens
        advice = f"{shorten}, or {raise_limit}." if raise_limit else f"{shorten}."
        # By "prompt is too long" clients of an endpoint, such as LangChain's, know what has happened.
        super().__init__(
            f"the prompt is too long: it has {counted} tokens, and {limited_by} holds {limit_tokens}. "
            f"{advice}"
        )
        self.prompt_tokens = prompt_tokens
        self.limit_tokens = limit_tokens
        self.limited_by = limited_by
        self.raise_limit = raise_limit
        self.shorten = shorten
        self.at_least = at_least
        self.field = field


class DeadlineExceededError(RequestError, TimeoutError):
    """The request's deadline passed before it was answered; its KV blocks are free again."""


class ContextNotFoundError(RequestError, LookupError):
    """The app has no context of this id, or it was deleted while a call of it was in progress."""

    def __init__(self, context_id: str) -> None:
        """``context_id`` is the id that was given. It may be that of another app's context."""
        super().__init__(
            f"there is no context {context_id!r}, or no longer. List the app's contexts, or make a new one."
        )
        self.context_id = context_id


class ContextQuotaError(RequestError):
    """The app has as many contexts, or as many bytes of them, as it may have. Nothing was stored."""

    def __init__(self, quota: str, limit: int) -> None:
        """``quota`` is the field of :class:`RuntimeConfig` whose value is ``limit``."""
        super().__init__(
            f"the limit {quota}={limit} is reached. Delete contexts that are no longer needed, or raise it."
        )
        self.quota = quota
        self.limit = limit


class JobQuotaError(RequestError):
    """The app has as many background jobs as it may have, or they have run for as long. None was added."""

    def __init__(self, quota: str, limit: str, again: str) -> None:
        """``quota`` is the field that limits it, such as ``jobs_per_app``.

        ``limit`` is what the app may have, ``again`` when it may have more.
        """
        super().__init__(
            f"an app may have {limit}. Send it again {again}, cancel jobs that are not needed, or raise the "
            "limit."
        )
        self.quota = quota


class JobFailedError(RequestError):
    """A background job has ended without an answer."""

    def __init__(self, id: str, problem: str) -> None:
        """``problem`` says why, and what to do next."""
        super().__init__(f"the background response {id!r} has failed: {problem}")


class ContextBusyError(RequestError):
    """Another call of the context is in progress, and its answer comes first. The context is unchanged."""

    def __init__(self, context_id: str) -> None:
        """``context_id`` is the context of both calls."""
        super().__init__(
            f"a call of the context {context_id!r} is in progress. Wait for its answer, or use another one."
        )
        self.context_id = context_id


class PredictorError(AgentRTError):
    """Base of errors of a predictor; they do not affect the model request."""


class HistoryStoreError(PredictorError, OSError):
    """The file in which a predictor stores what it has learned cannot be used."""


class HistoryCorruptError(HistoryStoreError):
    """The file is damaged or not a history. It has not been changed."""


class HistoryLockedError(HistoryStoreError):
    """Another process has locked the file."""


class ContextStoreError(AgentRTError, OSError):
    """The contexts on disk cannot be read or written."""


class ContextKeyError(ContextStoreError):
    """The key of encrypted contexts is missing, is not theirs, or other users can read it."""


class ContextDamagedError(ContextStoreError):
    """The text of a context is damaged or gone. Its file was set aside, and the context removed."""


class ChunkDamagedError(ContextStoreError):
    """A stored KV chunk is damaged or gone, and forgotten. Its tokens are computed again."""


class WorkloadError(AgentRTError):
    """Base of errors of recorded conversations on disk."""


class WorkloadNotFoundError(WorkloadError, FileNotFoundError):
    """There are no recorded conversations at the given path."""


class WorkloadFormatError(WorkloadError, ValueError):
    """A line of a file of recorded conversations is malformed."""

    def __init__(self, path: str | os.PathLike[str], line: int, problem: str) -> None:
        """``line`` counts from 1; 0 stands for the whole file."""
        super().__init__(f"{os.fspath(path)}, line {line}: {problem}. Restore the file.")
        self.path = os.fspath(path)
        self.line = line


class ChunkFormatError(AgentRTError, ValueError):
    """The bytes of a stored KV block are damaged, or of another model, layout or version."""


class EngineError(AgentRTError):
    """Base of faults of the engine, as opposed to errors of one request."""


class RuntimeClosedError(EngineError):
    """The runtime was closed; open it again to go on."""

    def __init__(
        self, message: str = "the runtime was closed. Open it again with LocalRuntime.open to go on."
    ) -> None:
        """Create the error."""
        super().__init__(message)


class ForkedProcessError(EngineError):
    """This process was forked from one that had used OpenVINO, whose threads it does not have."""

    def __init__(self) -> None:
        """Create the error; there is only one such message."""
        super().__init__(
            "this process was forked from one that had opened a model, and cannot use OpenVINO. Start it "
            "anew (multiprocessing.get_context('spawn'), subprocess), or open models only after the fork."
        )


class EngineFailedError(EngineError):
    """The engine thread stopped on an unexpected error, which is the ``__cause__``."""


class OverloadedError(EngineError):
    """Too many requests wait and this one is the least urgent.

    The engine is healthy. Try again later, or with a higher priority.
    """


class LogitsError(EngineError):
    """The logits of the next token are no finite numbers. Other requests are not affected."""

    def __init__(self, problem: str) -> None:
        """``problem`` is a main clause about the logits."""
        super().__init__(
            f"no token can be sampled: {problem}. The model's files may be damaged: download or convert them "
            "again. If they are sound, open the model with inference_precision='f32'."
        )


class GraphLoadError(EngineError):
    """A graph of an XPU of static shapes cannot be loaded. The op group keeps its former graph."""

    def __init__(self, group: int, reason: str) -> None:
        """``group`` is the token-level op group, from 0; ``reason`` is a sentence."""
        super().__init__(
            f"the graph of op group {group} cannot be loaded: {reason} The group keeps its former graph. "
            "Open the model again, which compiles the graph anew, or set npu_decoding=False."
        )
        self.group = group


class BenchPeerError(AgentRTError):
    """A server that a bench compares agentrt with is missing, or does not do the same work."""

    def __init__(self, name: str, url: str, problem: str) -> None:
        """``name`` and ``url`` are the server's; ``problem`` is the rest of the sentence."""
        super().__init__(
            f"{name} at {url} {problem}. Start it as docs/scheduling-figures.md says, unless the bench "
            "starts it, and the bench again."
        )


class BenchProcessError(AgentRTError):
    """A process in which a bench runs one of its sides has died."""

    def __init__(self, exit_code: int | None, last_lines: Sequence[str]) -> None:
        """``exit_code`` is minus the signal's number after a signal; ``last_lines`` are of its errors."""
        how = (
            f"of signal {-exit_code}" if exit_code is not None and exit_code < 0 else f"with code {exit_code}"
        )
        lines = "".join(f"\n  {line}" for line in last_lines)
        super().__init__(
            f"a process of the bench died {how}. It wrote {'last:' + lines if lines else 'nothing.'}\n"
            "Mend the cause, or free memory if it was killed (signal 9), and run the bench again."
        )
        self.exit_code = exit_code
        self.last_lines = tuple(last_lines)
