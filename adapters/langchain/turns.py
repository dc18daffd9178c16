"""The turns of a speculating chat model: who guesses, beside which call, and who opens them."""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import aclosing, closing, contextmanager, suppress
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.runnables.config import var_child_runnable_config
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from agentrt.concurrency.hosts import Host
from agentrt.drafts import DraftRequest, Speculator
from agentrt.errors import NotSpeculableError
from agentrt.lookahead.ahead import AheadRequest
from agentrt.tools.speculable import SpeculableTool, speculable_tool
from agentrt.turns.shared import SharedState
from agentrt.turns.turn import Turn

from .calls import ChatRequest
from .drafts import ChatModelSpeculator, tool_calls
from .messages import openai_messages
from .scopes import scope_of_run

if TYPE_CHECKING:
    from ..openai.tool_cache import ToolCacheEndpoint

Predictor = Speculator | BaseChatModel
Door = Callable[..., AsyncGenerator[Any, None]]


@dataclass(frozen=True)
class Setup:
    """What all copies of one speculating model share."""

    predictors: tuple[Predictor, ...]
    context: SharedState
    tool_cache: ToolCacheEndpoint | None = None
    """None if results are not to be submitted over HTTP."""

    def __deepcopy__(self, memo: object) -> Setup:
        """A deep copy of a model has the same predictors, which may hold models of their own."""
        return self


class BoundTools:
    """The tools bound to one copy of the model."""

    def __init__(self, tools: Sequence[Any]) -> None:
        """``tools`` are those given to ``bind_tools``."""
        self.given = tools
        self.speculable: dict[str, SpeculableTool] = {}
        for tool in tools:
            described = speculable_tool(tool)
            if isinstance(tool, BaseTool) and described is not None:
                self.speculable[described.name] = described
            elif any(map(speculable_tool, (tool, getattr(tool, "func", 0), getattr(tool, "coroutine", 0)))):
                raise NotSpeculableError(
                    f"{getattr(tool, 'name', tool)} is a speculable function in a tool that is not: only the "
                    "tool learns which call it answers. Put @speculable above @tool."
                )

    @functools.cached_property
    def submittable(self) -> set[str]:
        """Tools that have nothing but a text to say, so that somebody else may hand it to the model."""
        return {
            tool.name
            for tool in self.given
            if isinstance(tool, BaseTool)
            and tool.name in self.speculable
            and tool.response_format == "content"
            and not tool.return_direct
        }

    @functools.cached_property
    def schemas(self) -> list[Mapping[str, Any]]:
        """The function tools in OpenAI's shape; a provider's built-in tools cannot be guessed."""
        schemas = [convert_to_openai_tool(tool) for tool in self.given]
        return [schema for schema in schemas if schema.get("type") == "function"]


# Models implement one entry point by another (``_agenerate`` by ``_astream``, ``_astream`` by ``_stream``
# in a thread): the inner one must not speculate again. Set only while the model's own code runs.
_in_turn_of: ContextVar[Setup | None] = ContextVar("agentrt_in_turn_of", default=None)


@contextmanager
def inside_turn_of(setup: Setup) -> Iterator[None]:
    """Mark the block as part of a turn of ``setup``, so that inner calls of the model open no other."""
    token = _in_turn_of.set(setup)
    try:
        yield
    finally:
        _in_turn_of.reset(token)


@dataclass(frozen=True)
class Begun:
    """A turn that has been started, and its answer, if the model was asked for it ahead."""

    turn: Turn
    ahead: AheadRequest[Turn] | None = None

    def bind(self, message: BaseMessage) -> None:
        """Take the model's answer."""
        generation_s = None if self.ahead is None else self.ahead.generation_s
        self.turn.bind(tool_calls(message), generation_s=generation_s)

    async def answered_ahead(self) -> AsyncGenerator[Any, None]:
        """Yield what was answered ahead: nothing, where there was no such call or it failed at once."""
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
                raise  # of an answer half of which is told, as any that breaks off

    def answered_ahead_blocking(self) -> Generator[Any, None, None]:
        """:meth:`answered_ahead` for the sync doors."""
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


def begin_turn(
    model: Any,
    messages: Sequence[BaseMessage],
    options: Mapping[str, Any],
    host: Host,
    method: str = "",
    door: Door | None = None,
) -> Begun | None:
    """Start to speculate, or return None where there is nothing to gain.

    ``door`` makes a call of the model as this one is made, by ``method``, from messages and options; without
    it no call is made ahead.
    """
    setup: Setup | None = model._agentrt_setup
    tools: BoundTools | None = model._agentrt_tools
    if setup is None or tools is None or not tools.speculable or _in_turn_of.get() is setup:
        return None
    if options.get("tool_choice") == "none":
        return None

    def predictors_for(history: Sequence[BaseMessage]) -> list[Speculator]:
        return [
            predictor
            if isinstance(predictor, Speculator)
            else ChatModelSpeculator(predictor, history, tools.given, use_async=host.runs_coroutine_tools)
            for predictor in setup.predictors
        ]

    book, scope, samples = setup.context.ahead, scope_of_run(), setup.context.samples
    main: ChatRequest | None = None
    if book.enabled:
        if door is not None:
            kept = {name: value for name, value in options.items() if name != "run_manager"}
            send = functools.partial(door, options=kept)
            with suppress(Exception):  # a model or a history that cannot be told apart is not asked ahead
                which = (method, model._get_llm_string(**kept))
                call = ChatRequest(list(messages), kept, tools.schemas, samples, which, send, predictors_for)
                main = call if call.key else None
        ahead = book.take(scope, "" if main is None else main.key)
        if ahead is not None:
            return Begun(ahead.turn, ahead)
    turn = Turn(
        setup.context,
        tools=tools.speculable,
        predictors=predictors_for(messages),
        request=lambda: DraftRequest(openai_messages(messages), tools.schemas, samples),
        scope=scope,
        main=main,
    )
    # What runs early must not report to the user's callbacks: it may never have happened.
    context = copy_context()
    context.run(var_child_runnable_config.set, None)
    context.run(turn.start, host)
    return Begun(turn)
