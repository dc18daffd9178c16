"""Starting a turn beside a request to a speculating chat model."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import aclosing, closing, suppress
from dataclasses import dataclass
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage

from agentrt.drafts import DraftRequest, Speculator
from agentrt.lookahead.ahead import AheadRequest
from agentrt.tools.restrictions import Restrictions
from agentrt.tools.scopes import current_scope
from agentrt.turns.turn import Turn

from .bound_tools import BoundTools
from .chat_model_request import ChatModelRequest
from .chat_model_speculator import ChatModelSpeculator, tool_calls
from .known_values import known_to_turns
from .messages import answered_ids, openai_messages
from .model_method import ModelMethod
from .model_state import ModelState


@dataclass(frozen=True)
class StartedTurn:
    """A turn beside a request, and the request sent ahead that answers it, if there is one."""

    turn: Turn
    ahead: AheadRequest[Turn] | None = None

    def bind(self, message: BaseMessage) -> None:
        """Bind the turn to the tool calls of the model's message."""
        generation_s = None if self.ahead is None else self.ahead.generation_s
        self.turn.bind(tool_calls(message), generation_s=generation_s)

    async def lookahead_answer(self) -> AsyncGenerator[Any, None]:
        """Yield the answer of the lookahead request: nothing if there is none or it failed at once.

        Raises what the request raised after it had yielded something, as any stream that breaks off.
        """
        if self.ahead is None:
            return
        yielded = False
        try:
            async with aclosing(self.ahead.answer()) as pieces:
                async for piece in pieces:
                    yielded = True
                    yield piece
        except Exception:
            if yielded:
                raise

    def lookahead_answer_blocking(self) -> Generator[Any, None, None]:
        """:meth:`lookahead_answer` for the sync methods."""
        if self.ahead is None:
            return
        yielded = False
        try:
            with closing(self.ahead.answer_blocking()) as pieces:
                for piece in pieces:
                    yielded = True
                    yield piece
        except Exception:
            if yielded:
                raise


@dataclass(frozen=True)
class TurnStarter:
    """Starts the turns of one request by ``method`` of a speculating chat model."""

    state: ModelState
    tools: BoundTools
    method: ModelMethod
    restrictions: Callable[[], Restrictions]

    def start(self, messages: Sequence[BaseMessage], request: ChatModelRequest | None = None) -> StartedTurn:
        """Start a turn on this history, or take over the turn of an equal request that was sent ahead.

        ``request`` is the model request itself, if the next one may be sent ahead.
        """
        shared, scope = self.state.shared, current_scope()
        if shared.ahead.enabled:
            ahead = shared.ahead.take(scope, "" if request is None else request.key)
            if ahead is not None:
                ahead.turn.begin(*answered_ids(messages))
                return StartedTurn(ahead.turn, ahead)
        turn = Turn(
            shared,
            tools=self.tools.speculable,
            predictors=self._predictors_for(messages),
            request=lambda: DraftRequest(openai_messages(messages), self.tools.schemas, shared.samples),
            scope=scope,
            main=request,
            restrictions=self.restrictions,
        )
        turn.begin(*answered_ids(messages))
        with known_to_turns():
            turn.start(self.method.host)
        return StartedTurn(turn)

    def model_request(
        self,
        model: Any,
        send: Callable[..., Any],
        messages: Sequence[BaseMessage],
        options: Mapping[str, Any],
    ) -> ChatModelRequest | None:
        """Return the request as one that others can be sent ahead after; None if that is off or cannot be.

        A model or a history without a key cannot: equal requests would not be recognised.
        """
        if not self.state.shared.ahead.enabled:
            return None
        kept = {name: value for name, value in options.items() if name != "run_manager"}
        with suppress(Exception):
            request = ChatModelRequest(
                model=model,
                method=self.method,
                send=send,
                model_key=model._get_llm_string(**kept),
                messages=list(messages),
                options=kept,
                schemas=self.tools.schemas,
                samples=self.state.shared.samples,
                predictors_for=self._predictors_for,
            )
            return request if request.key else None
        return None

    def _predictors_for(self, messages: Sequence[BaseMessage]) -> list[Speculator]:
        return [
            ChatModelSpeculator(
                predictor, messages, self.tools.given, use_async=self.method.host.runs_coroutine_tools
            )
            if isinstance(predictor, BaseChatModel)
            else predictor
            for predictor in self.state.predictors
        ]
