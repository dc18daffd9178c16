"""The turns of one answer, whose tool calls the model's server may answer itself (SpecTools, Algorithm 4)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Iterator, Sequence
from contextlib import contextmanager
from contextvars import copy_context
from types import TracebackType
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from agentrt.adapting import Turn
from agentrt.calls import ParserEvent, ToolCall
from agentrt.toolcache import FinishedCall, TakeResult, offering_results

from .chat_model_speculator import tool_calls
from .nesting import inside_turn_of
from .turns import TurnStarter


class TurnSequence:
    """The turn beside a request, and those that follow it within the same answer.

    The next turn starts where the server has answered the calls of the one before. If the server never
    does, there is one turn.
    """

    def __init__(self, first: Turn, starter: TurnStarter, messages: Sequence[BaseMessage]) -> None:
        """``first`` is the turn on the history ``messages``; ``starter`` starts those on longer ones."""
        self._current = first
        self._starter = starter
        self._outside = copy_context()
        self._messages = list(messages)
        self._take: TakeResult | None = None

    def __enter__(self) -> TurnSequence:
        """Return the sequence."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Discard the speculations of the current turn if it was not bound."""
        self._current.discard()

    @contextmanager
    def generating(self) -> Iterator[None]:
        """Run the model's own code in this block: it starts no turns, and may take speculated results."""
        with inside_turn_of(self._starter.state), offering_results(self):
            yield

    def lookahead_answer(self) -> AsyncGenerator[Any, None]:
        """Yield the answer of a lookahead request, if it answers this one."""
        return self._current.lookahead_answer()

    def lookahead_answer_blocking(self) -> Generator[Any, None, None]:
        """:meth:`lookahead_answer` for the sync methods."""
        return self._current.lookahead_answer_blocking()

    def observe(self, event: ParserEvent) -> None:
        """Show the predictors of the current turn what the model has written."""
        self._current.observe(event)

    def bind(self, message: BaseMessage) -> None:
        """Bind the last turn to the calls that the agent has to make."""
        self._current.bind(tool_calls(message))

    def take_results(self, take: TakeResult) -> None:
        """Hand the results of speculations to ``take``, in this turn and those that follow."""
        self._take = take
        self._current.on_finished(self._submit)

    def answered(self, calls: Sequence[tuple[ToolCall, str]]) -> None:
        """End the current turn, whose calls the server has answered, and start the next."""
        self._current.bind_answered([call for call, _ in calls])
        made: Any = [
            {"name": call.name, "args": dict(call.arguments), "id": call.id, "type": "tool_call"}
            for call, _ in calls
        ]
        self._messages.append(AIMessage("", tool_calls=made))
        self._messages += [ToolMessage(output, tool_call_id=str(call.id)) for call, output in calls]
        # This runs in the model's own code, which starts no turns: the context before it does.
        self._current = self._outside.run(self._starter.start, list(self._messages))
        self._current.on_finished(self._submit)

    def _submit(self, result: FinishedCall) -> None:
        if self._take is not None and result.call.name in self._starter.tools.submittable:
            self._take(result)
