"""The turns of one answer of a LangChain model that answers calls on the way (SpecTools, Algorithm 4)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextvars import copy_context
from types import TracebackType
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from agentrt.calls import ParserEvent, ToolCall
from agentrt.toolcache import TakeResult, result_text

from .turns import Begun


class AnswerTurns:
    """The turn beside a model call, and those that follow it within the same answer.

    As long as the model takes no results this is the one turn that was begun.
    """

    def __init__(
        self,
        begun: Begun,
        begin_next: Callable[[Sequence[BaseMessage]], Begun | None],
        messages: Sequence[BaseMessage],
        submittable: Collection[str],
    ) -> None:
        """``begin_next`` begins a turn on a longer history; results of ``submittable`` tools go out."""
        self._begun: Begun | None = begun
        self._begin_next = begin_next
        self._outside = copy_context()
        self._messages = list(messages)
        self._submittable = submittable
        self._take: TakeResult | None = None

    def __enter__(self) -> AnswerTurns:
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Discard the speculations of the turn that was not bound."""
        if self._begun is not None:
            self._begun.turn.discard()

    def observe(self, event: ParserEvent) -> None:
        """Show the predictors of the turn in force what the model has written."""
        if self._begun is not None:
            self._begun.turn.observe(event)

    def bind(self, message: BaseMessage) -> None:
        """Take the end of the answer, with the calls that the agent has to make."""
        if self._begun is not None:
            self._begun.bind(message)

    def take_results(self, take: TakeResult) -> None:
        """Hand the results of early runs to ``take``."""
        self._take = take
        self._follow()

    def answered(self, calls: Sequence[tuple[ToolCall, str]]) -> None:
        """Go on to the next turn."""
        if self._begun is not None:
            self._begun.turn.bind_answered([call for call, _ in calls])
        made: Any = [
            {"name": call.name, "args": dict(call.arguments), "id": call.id, "type": "tool_call"}
            for call, _ in calls
        ]
        self._messages.append(AIMessage("", tool_calls=made))
        self._messages += [ToolMessage(output, tool_call_id=str(call.id)) for call, output in calls]
        # Outside of the model's own call, in which nobody else may speculate.
        self._begun = self._outside.run(self._begin_next, list(self._messages))
        self._follow()

    def _follow(self) -> None:
        if self._begun is not None:
            self._begun.turn.on_finished(self._submit)

    def _submit(self, call: ToolCall, value: Any) -> None:
        text = result_text(value)
        if self._take is not None and text is not None and call.name in self._submittable:
            self._take(call, text)
