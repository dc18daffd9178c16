"""Wrong arguments at the public surface: a typed error that names them and says what to give."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import openai
import pytest
from langchain_core.language_models.fake_chat_models import FakeListChatModel

import agentrt
from agentrt import Priority, SpeculationConfig, SpeculationSession, priority, run_scope, speculable
from agentrt import speculators as predictors
from agentrt.adapters import langchain, mcp
from agentrt.adapters import openai as openai_adapter
from agentrt.errors import AgentRTError, ConfigurationError, InvalidRequestError, NotSpeculableError
from agentrt.testing import ScriptedSpeculator

P: Any = ScriptedSpeculator()
CLIENT = openai.OpenAI(api_key="none", base_url="http://model.test/v1")
CHAT = FakeListChatModel(responses=["x"])
WRONG: Any = 3


@speculable
def look(q: str) -> str:
    return q


class NotAnObserver:
    pass


FAST = openai_adapter.speculate(CLIENT, P, tools=[look])


def turn(messages: Any, tools: Any) -> None:
    with SpeculationSession([look], P) as session:
        session.turn(messages, tools)


def ask(messages: Any, tools: Any) -> None:
    async def main() -> None:
        async with SpeculationSession([look], P) as session:
            await session.ask(lambda *_: WRONG, messages, tools)

    asyncio.run(main())


def call(given: Any) -> None:
    with SpeculationSession([look], P) as session:
        session.call(given)


TABLE: dict[type[AgentRTError], list[tuple[str, Callable[[Any], Any], list[Any]]]] = {
    ConfigurationError: [
        ("agentrt.SpeculationConfig", lambda it: SpeculationConfig(**it), [{"unknown": 1}]),
        (
            "agentrt.SpeculationSession",
            lambda it: SpeculationSession(it, P),
            [look, None, "look", {"look": look}, [print]],
        ),
        (
            "agentrt.SpeculationSession",
            lambda it: SpeculationSession([look], P, observers=it),
            [3, None, [3], [NotAnObserver()], [type(P)]],
        ),
        ("agentrt.priority", priority, ["proactive", None, 3, look]),
        ("agentrt.priority", priority(Priority.PROACTIVE), [3, None]),
        ("agentrt.run_scope", run_scope, [None, [], ([],)]),
        ("agentrt.speculable", lambda it: speculable(**it), [{"unknown": 1}, {"ttl": "x"}]),
        (
            "langchain.speculate",
            lambda it: langchain.speculate(it, P),
            ["gpt", None, FakeListChatModel, CHAT.bind(stop=["x"])],
        ),
        ("langchain.speculate", lambda it: langchain.speculate(CHAT, it), [3, None, []]),
        ("langchain.SpeculationMiddleware", lambda it: langchain.SpeculationMiddleware(it), [3, None, []]),
        ("langchain.speculate", lambda it: langchain.speculate(CHAT, P, observers=it), [3, [3]]),
        ("langchain.report_of", langchain.report_of, [3, CHAT]),
        ("langchain.allow_speculation", langchain.allow_speculation, [3, None, object(), print, int]),
        (
            "langchain.speculable_mcp_tools",
            lambda it: langchain.speculable_mcp_tools(it, trusted=True),
            [3, None, look, [look], "look"],
        ),
        ("langchain.ChatAgentRT", lambda it: langchain.ChatAgentRT(runtime=it), [3, "nano"]),
        ("langchain.BackgroundModel", langchain.BackgroundModel, [3, CHAT, look]),
        ("langchain.init_chat_model", langchain.init_chat_model, [3, object()]),
        (
            "openai.speculate",
            lambda it: openai_adapter.speculate(it, P, tools=[look]),
            ["gpt", None, openai.OpenAI],
        ),
        ("openai.speculate", lambda it: openai_adapter.speculate(CLIENT, P, tools=it), [None, look, "look"]),
        ("openai.prioritized", openai_adapter.prioritized, [3, None, openai.OpenAI]),
        ("openai.prioritized", lambda it: openai_adapter.prioritized(CLIENT, dialect=it), [3, "none"]),
        ("openai.report_of", openai_adapter.report_of, [3, CLIENT]),
        ("openai.run_tool", lambda it: openai_adapter.run_tool(it, it), [3, CLIENT]),
        ("mcp.speculable_tools", lambda it: asyncio.run(mcp.speculable_tools(it, trusted=True)), [3, None]),
        ("speculators.CodeSpeculator", predictors.CodeSpeculator, [[3]]),
        ("speculators.CodeSpeculator", lambda it: predictors.CodeSpeculator(fences=it), [[("", "```")]]),
        ("speculators.EndpointSpeculator", predictors.EndpointSpeculator, [3, None]),
        (
            "speculators.EndpointSpeculator",
            lambda it: predictors.EndpointSpeculator("m", api_key="none", samples=it),
            ["3", 0],
        ),
        ("speculators.EnsembleSpeculator", predictors.EnsembleSpeculator, [3, [3], []]),
        ("speculators.LocalSpeculator", predictors.LocalSpeculator, [3, None]),
        ("speculators.PatternSpeculator", predictors.PatternSpeculator, [3]),
        (
            "speculators.PatternSpeculator",
            lambda it: predictors.PatternSpeculator(**it),
            [{"max_drafts": "6"}, {"min_probability": None}],
        ),
        ("speculators.StreamSpeculator", lambda it: predictors.StreamSpeculator(format=it), [3, "none"]),
    ],
    InvalidRequestError: [
        (
            "agentrt.SpeculationSession",
            lambda it: turn(*it),
            [(None, None), ("hi", []), ([3], []), ([], [look]), ([], ["look"]), ([], {"look": 1})],
        ),
        ("agentrt.SpeculationSession", lambda it: ask(it, it), [None, "hi"]),
        ("agentrt.SpeculationSession", call, [None, {"name": "look"}]),
        (
            "openai.run_tool",
            lambda it: openai_adapter.run_tool(FAST, it),
            [{"id": "1", "function": {"name": "look", "arguments": "{}"}}, None, "look"],
        ),
        ("openai.arun_tool", lambda it: asyncio.run(openai_adapter.arun_tool(FAST, it)), [{"id": "1"}, None]),
    ],
    NotSpeculableError: [
        ("agentrt.speculable", speculable, [3, "look"]),
        ("agentrt.speculable", speculable(ttl=3), [3, None]),
    ],
}
CASES = [
    pytest.param(kind, use, given, id=f"{name} {row}.{number}")
    for kind, uses in TABLE.items()
    for row, (name, use, several) in enumerate(uses)
    for number, given in enumerate(several)
]

UNCHECKED = {
    *("agentrt.DraftRequest", "agentrt.ToolCall"),  # values: checked where they are used
    *("agentrt.Priority", "agentrt.SpeculationReport", "agentrt.current_priority"),
    *("speculators.AnswerStream", "speculators.DraftCost", "speculators.DraftRequest"),
    *("speculators.Learner", "speculators.Speculator"),  # protocols
    *("langchain.RunRecorder", "mcp.TasksExtension"),  # take no arguments
    "langchain.BackgroundRun",  # made by BackgroundModel
    "mcp.McpTool",  # made by speculable_tools
}


@pytest.mark.parametrize(("kind", "use", "given"), CASES)
def test_a_wrong_argument_raises_a_typed_error_that_says_what_to_do(
    kind: type[AgentRTError], use: Callable[[Any], Any], given: Any
) -> None:
    with pytest.raises(kind) as raised:
        use(given)
    assert re.search(r"[.:] [A-Z].*[.]$", str(raised.value), re.DOTALL), "it does not say what to do next"


@pytest.mark.parametrize("fields", [{"foo": 1}, {"temperature": "hot"}])
def test_a_chat_model_with_a_wrong_field_is_refused(fields: dict[str, Any]) -> None:
    runtime = SimpleNamespace(model_id="nano", context_length=8, call_format=None)
    with pytest.raises(ConfigurationError, match=next(iter(fields))):
        langchain.ChatAgentRT(runtime=runtime, **fields)


def test_every_public_name_is_tried_with_a_wrong_argument() -> None:
    modules = {
        "agentrt": agentrt,
        "langchain": langchain,
        "mcp": mcp,
        "openai": openai_adapter,
        "speculators": predictors,
    }
    public = {
        f"{short}.{name}"
        for short, module in modules.items()
        for name in module.__all__
        if callable(getattr(module, name))
    }
    assert public - UNCHECKED == {name for uses in TABLE.values() for name, *_ in uses}
