"""`RunRecorder`: a callback handler that records a LangChain run."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, LLMResult

from agentrt.reports import RecordedAnswer, RecordedCall, Recording

from .messages import openai_messages


class RunRecorder(BaseCallbackHandler):
    """Records the answers of a run's models and tools; add it to the run's callbacks::

        recorder = RunRecorder()
        agent.invoke(request, {"callbacks": [recorder]})
        recorder.recording().save(path)

    Works for any chain, agent or graph, sync or async. The answers of several agents of one run are kept in
    the order in which they came.
    """

    run_inline = True  # in the order of events, also in async runs

    def __init__(self) -> None:
        """Create an empty recorder."""
        self._lock = threading.Lock()
        self._requests: dict[UUID, tuple[Sequence[BaseMessage], float]] = {}
        self._running_calls: dict[UUID, RecordedCall] = {}
        self._turns: list[RecordedAnswer] = []
        self._began: float | None = None

    def recording(self) -> Recording:
        """Return the recording so far."""
        with self._lock:
            return Recording(turns=tuple(self._turns))

    def on_chat_model_start(
        self, serialized: dict[str, Any], messages: list[list[BaseMessage]], *, run_id: UUID, **kwargs: Any
    ) -> None:
        """Record a request to a model."""
        with self._lock:
            self._requests[run_id] = (list(messages[0]), self._since_began())

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: Any) -> None:
        """Record the model's answer."""
        generation = response.generations[0][0]
        with self._lock:
            request = self._requests.pop(run_id, None)
            if request is None or not isinstance(generation, ChatGeneration):
                return
            messages, started = request
            turn = RecordedAnswer(
                messages=tuple(openai_messages(messages)),
                answer=openai_messages([_whole(generation.message)])[0],
                started_s=started,
                seconds=self._since_began() - started,
            )
            self._turns.append(turn)

    def on_tool_start(
        self,
        serialized: dict[str, Any],
        input_str: str,
        *,
        run_id: UUID,
        inputs: dict[str, Any] | None = None,
        tool_call_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        """Record a tool call."""
        with self._lock:
            self._running_calls[run_id] = RecordedCall(
                id=tool_call_id or "",
                name=str(serialized.get("name") or kwargs.get("name")),
                arguments=dict(inputs or {}),
                result="",
                started_s=self._since_began(),
                seconds=0,
            )

    def on_tool_end(self, output: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """Record the tool's result."""
        content = output.content if isinstance(output, ToolMessage) else output
        self._add_call(run_id, result=content if isinstance(content, str) else repr(content))

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """Record the tool's error."""
        self._add_call(run_id, error=f"{type(error).__name__}: {error}")

    def _add_call(self, run_id: UUID, *, result: str = "", error: str | None = None) -> None:
        with self._lock:
            call = self._running_calls.pop(run_id, None)
            if call is None:
                return
            seconds = self._since_began() - (call.started_s or 0)
            call = call.model_copy(update={"result": result, "error": error, "seconds": seconds})
            for index, turn in reversed(list(enumerate(self._turns))):
                if any(requested.id == call.id for requested in turn.requested):
                    self._turns[index] = turn.model_copy(update={"calls": (*turn.calls, call)})
                    return

    def _since_began(self) -> float:
        """Return the seconds since the first request or call."""
        now = time.monotonic()
        if self._began is None:
            self._began = now
        return now - self._began


def _whole(message: BaseMessage) -> BaseMessage:
    # A streamed answer ends as a chunk: the recording does not depend on whether it was streamed.
    if isinstance(message, AIMessage):
        return AIMessage(content=message.content, tool_calls=message.tool_calls)
    return message
