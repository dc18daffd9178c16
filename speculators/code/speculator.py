"""`CodeSpeculator`: starts the tool calls in code while the main model is still writing it."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from agentrt.argument_checks import check_collection
from agentrt.calls import CallArgumentsDelta, CallStarted, ParserEvent, TextDelta, ToolCall
from agentrt.drafts import DraftRequest
from agentrt.errors import ConfigurationError
from agentrt.tools.speculable import speculable_tool

from .blocks import ArgumentCode, FencedCode
from .program import Program, parameters_of
from .statements import Statements

FENCES = (("```python\n", "```"), ("```py\n", "```"), ("<code>", "</code>"))
"""Between which models write code in their text."""


class CodeSpeculator:
    """Reads the code that the main model writes, and yields each tool call when its statement is complete.

    It is for agents that run code in which tools are functions (CodeAct): the code stands between fences in
    the answer's text, or in an argument of a call of ``runner``. A call is started if it is surely made, and
    with literal arguments: not one in a condition, loop, ``try`` or function, and none after a possible
    write, such as a call of a function that is neither speculable nor a pure builtin. There is no draft
    model. From an answer that is not streamed it yields nothing.

    The code claims these calls if what it calls are the ``@speculable`` functions themselves, in the context
    of the run. An unfinished speculation is waited for, but never by blocking an event loop: run code that
    is not async in a thread.
    """

    name = "code"
    shares_cores = False
    reads_calls = True

    def __init__(
        self,
        functions: Sequence[Callable[..., Any]] = (),
        *,
        fences: Sequence[tuple[str, str]] = FENCES,
        runner: str = "run_code",
        argument: str = "code",
    ) -> None:
        """``functions`` are the tools that code can call.

        They may be left out where the requests have their schemas and none of them is a coroutine function or
        has an effect (``prepare`` and ``commit``). ``fences`` are pairs of the texts before and after code;
        ``argument`` of ``runner`` holds code.

        Raises:
            ConfigurationError: ``functions`` is no collection, one of them has no signature, or a fence is
                empty.
        """
        check_collection("functions", functions, "a list of the functions that the code calls")
        functions = list(functions)
        self._signatures = dict(map(_signature, functions))
        self._coroutines = {each.__name__ for each in functions if inspect.iscoroutinefunction(each)}
        tools = [tool for each in functions if (tool := speculable_tool(each)) is not None]
        self._with_effect = {tool.name for tool in tools if tool.two_phase}
        if not all(opening and closing for opening, closing in fences):
            raise ConfigurationError("a fence is empty. Give pairs of the texts before and after code.")
        self._fences = tuple(fences)
        self._runner = runner
        self._argument = argument

    async def drafts(self, request: DraftRequest) -> AsyncIterator[ToolCall]:
        """Yield each call of the answer's code that is surely made, with literal arguments."""
        answer = _Answer(self._fences, self._runner, self._argument)
        statements = Statements()
        program = Program(
            {**parameters_of(request.tools), **self._signatures},
            request.speculable,
            coroutines=self._coroutines,
            with_effect=self._with_effect,
        )
        async for event in request.answer.events():
            for statement in statements.feed(answer.read(event)):
                for call in program.take(statement):
                    yield call


class _Answer:
    """The code of one answer."""

    def __init__(self, fences: tuple[tuple[str, str], ...], runner: str, argument: str) -> None:
        self._text = FencedCode(fences) if fences else None
        self._runner = runner
        self._argument = argument
        self._calls: dict[int, ArgumentCode] = {}

    def read(self, event: ParserEvent) -> str:
        """Return the code that an event adds."""
        if isinstance(event, TextDelta) and self._text is not None:
            return self._text.feed(event.text)
        if isinstance(event, CallStarted) and event.name == self._runner:
            self._calls[event.index] = ArgumentCode(self._argument)
        if isinstance(event, CallArgumentsDelta) and event.index in self._calls:
            return self._calls[event.index].feed(event.text)
        return ""


def _signature(function: Callable[..., Any]) -> tuple[str, tuple[str, ...]]:
    try:
        return function.__name__, tuple(inspect.signature(function).parameters)
    except (AttributeError, TypeError, ValueError) as error:
        raise ConfigurationError(
            f"functions: an object of type {type(function).__name__} has no name or signature. Give the "
            "functions that the code calls."
        ) from error
