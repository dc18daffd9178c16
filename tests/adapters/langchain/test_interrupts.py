"""Which nodes may interrupt a graph."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import langgraph.types
import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, wrap_model_call
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langgraph.errors import GraphInterrupt
from langgraph.prebuilt import ToolNode
from langgraph.types import interrupt

from agentrt.adapters.langchain import allow_speculation
from agentrt.adapters.langchain.guards import interrupts as module
from agentrt.adapters.langchain.guards.interrupts import may_interrupt
from tests.adapters.doubles import ScriptedChat

ASK: Any = {"person": interrupt}
langgraph_types: Any = langgraph.types


class Desk:
    """Asks through itself."""

    def ask(self) -> Any:
        return interrupt("?")

    @staticmethod
    def ask_apart() -> Any:
        return interrupt("?")

    def run(self, state: Any) -> Any:
        return self.ask()


class Branch(Desk):
    """Asks through the class above it."""

    def run(self, state: Any) -> Any:
        return super().ask()


class Callee:
    """Is called itself."""

    def __call__(self, state: Any) -> Any:
        return interrupt("?")


class Given:
    """Asks by what it was given."""

    __slots__ = ("put",)

    def __init__(self, put: Any) -> None:
        self.put = put

    def run(self, state: Any) -> Any:
        return self.put("?")


class Proxy(Desk):
    """Has every attribute."""

    def __getattr__(self, name: str) -> Any:
        return print


class Plain:
    """Asks nobody."""

    def __init__(self) -> None:
        self.seen: dict[str, list[int]] = {"a": [1]}

    def run(self, state: Any) -> Any:
        return getattr(state, "calls", self.seen)


def by_static_method(state: Any) -> Any:
    return Desk.ask_apart()


def by_default(state: Any, *, put: Any = interrupt) -> Any:
    return put("?")


def by_dict(state: Any) -> Any:
    return ASK["person"]("?")


def by_lookup(state: Any) -> Any:
    return getattr(langgraph_types, "inter" + "rupt")("?")


def by_raising(state: Any) -> Any:
    raise GraphInterrupt(())


def by_argument(put: Any, state: Any) -> Any:
    return put("?")


def plain(state: Any) -> Any:
    return {"messages": [AIMessage(str(len(state)))]}


@tool
def asking(q: str) -> str:
    """Ask."""
    return str(interrupt(q))


def calling_a_tool(state: Any) -> Any:
    return asking.invoke(state)


class Unbound:
    """Raises for every attribute, as proxies of what is not there yet do."""

    __slots__ = ("absent",)

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("outside of a request")


request = Unbound()


def plain_of_request(state: Any) -> Any:
    return {"messages": [AIMessage(str(request))]}


def asking_of_request(state: Any) -> Any:
    return interrupt(str(request))


class Compiled:
    """Has no code that can be read."""

    __module__ = "compiled_elsewhere"
    __call__ = operator.itemgetter("messages")


@allow_speculation
def marked(state: Any) -> Any:
    return interrupt("?")


INTERRUPTING: list[Any] = [
    Desk().run,
    Branch().run,
    Proxy().run,
    Callee(),
    Given(interrupt).run,
    Given(SimpleNamespace(put=Desk().run).put).run,
    by_static_method,
    by_default,
    by_dict,
    by_lookup,
    by_raising,
    functools.partial(by_default),
    functools.partial(by_argument, interrupt),
    RunnableLambda(Desk().run),
    RunnableLambda(by_dict) | RunnableLambda(plain),
    asking_of_request,
    Compiled(),
]
FREE: list[Any] = [
    plain,
    Plain().run,
    calling_a_tool,
    functools.partial(by_argument, print),
    RunnableLambda(plain) | RunnableLambda(Plain().run),
    ToolNode([asking]),
    ScriptedChat(script=[]),
    operator.itemgetter("messages"),
    plain_of_request,
    marked,
]


@pytest.mark.parametrize("node", INTERRUPTING)
def test_every_way_to_an_interrupt_is_seen(node: Any) -> None:
    assert may_interrupt(node)


@pytest.mark.parametrize("node", FREE)
def test_ordinary_nodes_do_not_interrupt(node: Any) -> None:
    assert not may_interrupt(node)


def test_a_node_that_reaches_too_much_may_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_VISITED", 2)
    assert may_interrupt(Plain().run)


@wrap_model_call
def ask_after(request: Any, handler: Callable[[Any], Any]) -> Any:
    answer = handler(request)
    interrupt("?")
    return answer


class AskAfter(AgentMiddleware):
    """Asks through itself."""

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        answer = handler(request)
        Desk().run(answer)
        return answer


@pytest.mark.parametrize(("middleware", "interrupts"), [((ask_after,), 1), ((AskAfter(),), 1), ((), 0)])
def test_the_middleware_around_a_model_is_part_of_its_node(middleware: Any, interrupts: int) -> None:
    agent = create_agent(ScriptedChat(script=[]), [asking], middleware=middleware)
    assert may_interrupt(agent.nodes["model"].bound) == interrupts
