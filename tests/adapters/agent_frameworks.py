"""One agent in every framework: who calls the tool, with or without the call's id, and how often it runs.

The agent asks its model :data:`TURNS` times; each answer but the last calls ``look``. The predictor is always
right, and the model answers once the predicted call has started, so that each call could claim.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentrt.calls import ToolCall
from agentrt.drafts import DraftRequest
from agentrt.reports.report import SpeculationReport
from agentrt.tools.speculable import speculable
from agentrt.turns.session import SpeculationSession
from tests.patience import PATIENCE_S

TURNS = 5
Run = Callable[[], "Outcome"]


@dataclass(frozen=True)
class Outcome:
    """What an agent did: the runs of its tool, in order, and the report on its model or client."""

    runs: Sequence[str]
    results: Sequence[str]
    """The results that the model was given."""
    report: SpeculationReport

    @property
    def double_runs(self) -> int:
        """How many calls ran the tool more than once."""
        return len(self.runs) - len(set(self.runs))


class CountedTool:
    """The tool ``look``, as a sync and as a coroutine function, which notes its runs. Thread-safe."""

    def __init__(self) -> None:
        """Create a tool that has not run."""
        self.runs: list[str] = []
        self._changed = threading.Condition()

    def function(self) -> Callable[[str], str]:
        """Return the sync function."""

        def look(q: str) -> str:
            """Look something up.

            Args:
                q: What to look up.
            """
            return self._run(q)

        return look

    def coroutine_function(self) -> Callable[[str], Coroutine[Any, Any, str]]:
        """Return the coroutine function."""

        async def look(q: str) -> str:
            """Look something up.

            Args:
                q: What to look up.
            """
            return self._run(q)

        return look

    def _run(self, q: str) -> str:
        with self._changed:
            self.runs.append(q)
            self._changed.notify_all()
        return f"found {q}"

    def wait_until_run(self, q: str) -> None:
        """Wait until the tool has run with these arguments."""
        with self._changed:
            if not self._changed.wait_for(lambda: q in self.runs, PATIENCE_S):
                raise TimeoutError(f"look({q}) was not run speculatively. See the report for the reason.")

    async def until_run(self, q: str) -> None:
        """:meth:`wait_until_run` for async code."""
        await asyncio.to_thread(self.wait_until_run, q)


class Oracle:
    """Drafts the next call of the agent."""

    name = "oracle"

    async def drafts(self, request: DraftRequest) -> AsyncIterator[ToolCall]:
        """Yield the call of ``look`` that follows the history."""
        done = calls_made(request.messages)
        if done < TURNS - 1:
            yield ToolCall("look", {"q": str(done)})


def calls_made(messages: Sequence[Mapping[str, Any]]) -> int:
    """Return how many calls of ``look`` a history has; smolagents tells of calls in text."""
    names = [
        {call["function"]["name"] for call in message.get("tool_calls") or ()}
        for message in messages
        if message["role"] == "assistant"
    ]
    return sum(not each or "look" in each for each in names)


# Sessions.


def session_agent(call_id: str | None) -> Outcome:
    """Run a session whose calls all have this id, or none."""
    counted = CountedTool()

    async def main() -> Outcome:
        look = speculable(counted.coroutine_function())
        results: list[str] = []
        async with SpeculationSession([look], [Oracle()]) as session:
            messages: list[dict[str, Any]] = [{"role": "user", "content": "hi"}]
            for number in range(TURNS - 1):
                call = ToolCall("look", {"q": str(number)}, call_id)
                with session.turn(messages, []) as turn:
                    await counted.until_run(str(number))
                    turn.bind([call])
                results.append(await session.acall(call))
                messages.append({"role": "assistant", "content": ""})
                messages.append({"role": "tool", "tool_call_id": call_id, "content": results[-1]})
            return Outcome(counted.runs, results, session.report())

    return asyncio.run(main())


# LangChain and LangGraph.


def chat_model(counted: CountedTool) -> Any:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage, BaseMessage
    from langchain_core.outputs import ChatGeneration, ChatResult

    class Scripted(BaseChatModel):
        """Calls ``look`` with the number of the turn."""

        @property
        def _llm_type(self) -> str:
            return "scripted"

        def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
            return self.bind(tools=[each.name for each in tools])

        def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
            turn = _turn(messages)
            if turn < TURNS - 1:
                counted.wait_until_run(str(turn))
            return _answer(turn)

        async def _agenerate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
            turn = _turn(messages)
            if turn < TURNS - 1:
                await counted.until_run(str(turn))
            return _answer(turn)

    def _turn(messages: list[BaseMessage]) -> int:
        return sum(message.type == "tool" and message.name in ("look", None) for message in messages)

    def _answer(turn: int) -> ChatResult:
        call = {"name": "look", "args": {"q": str(turn)}, "id": f"call_{turn}", "type": "tool_call"}
        message = AIMessage(content="", tool_calls=[call]) if turn < TURNS - 1 else AIMessage(content="done")
        return ChatResult(generations=[ChatGeneration(message=message)])

    return Scripted()


CallTool = Callable[[Any, dict[str, Any]], Any]
"""Makes one call of the model by a LangChain tool, as an agent's own code does; returns the result."""

CALLS: dict[str, CallTool] = {
    "tool.invoke(args)": lambda tool, call: tool.invoke(call["args"]),
    "tool.invoke(call)": lambda tool, call: tool.invoke({**call, "type": "tool_call"}).content,
    "tool.func(**args)": lambda tool, call: tool.func(**call["args"]),
    "tool.batch([args])": lambda tool, call: tool.batch([call["args"]])[0],
}
ASYNC_CALLS: dict[str, CallTool] = {
    "tool.ainvoke(args)": lambda tool, call: tool.ainvoke(call["args"]),
    "tool.coroutine(**args)": lambda tool, call: tool.coroutine(**call["args"]),
    "tool.abatch([args])": lambda tool, call: _first(tool.abatch([call["args"]])),
}


async def _first(results: Any) -> Any:
    return (await results)[0]


def langchain_agent(build: Callable[[Any, Any], Callable[[], Any]], *, is_async: bool) -> Outcome:
    """Run the agent that ``build(model, tool)`` returns; it returns its messages, in async code to await."""
    from langchain_core.tools import tool

    from agentrt.adapters.langchain import report_of, speculate

    counted = CountedTool()
    model = speculate(chat_model(counted), Oracle())
    look = speculable(tool(counted.coroutine_function() if is_async else counted.function()))
    drive = build(model, look)

    async def main() -> Any:
        return await drive()

    messages = asyncio.run(main()) if is_async else drive()
    results = [str(message.content) for message in messages if message.type == "tool"]
    return Outcome(counted.runs, results, report_of(model))


def loop(call_tool: CallTool) -> Callable[[Any, Any], Callable[[], Any]]:
    """Return the builder of a loop without a graph."""
    from langchain_core.messages import HumanMessage, ToolMessage

    def build(model: Any, tool: Any) -> Callable[[], Any]:
        bound = model.bind_tools([tool])

        def drive() -> Any:
            messages: list[Any] = [HumanMessage("hi")]
            while True:
                messages.append(bound.invoke(messages))
                if not messages[-1].tool_calls:
                    return messages
                for call in messages[-1].tool_calls:
                    messages.append(ToolMessage(call_tool(tool, call), tool_call_id=call["id"]))

        return drive

    return build


def aloop(call_tool: CallTool) -> Callable[[Any, Any], Callable[[], Any]]:
    """:func:`loop` in async code."""
    from langchain_core.messages import HumanMessage, ToolMessage

    def build(model: Any, tool: Any) -> Callable[[], Any]:
        bound = model.bind_tools([tool])

        async def drive() -> Any:
            messages: list[Any] = [HumanMessage("hi")]
            while True:
                messages.append(await bound.ainvoke(messages))
                if not messages[-1].tool_calls:
                    return messages
                for call in messages[-1].tool_calls:
                    messages.append(ToolMessage(await call_tool(tool, call), tool_call_id=call["id"]))

        return drive

    return build


def from_scratch(call_tool: CallTool) -> Callable[[Any, Any], Callable[[], Any]]:
    """Return the builder of LangGraph's own "from scratch" graph, with a tool node of the user's."""
    from langchain_core.messages import ToolMessage

    def build(model: Any, tool: Any) -> Callable[[], Any]:
        bound = model.bind_tools([tool])
        tools_by_name = {tool.name: tool}

        def agent(state: Any) -> Any:
            return {"messages": [bound.invoke(state["messages"])]}

        def tools(state: Any) -> Any:
            return {
                "messages": [
                    ToolMessage(call_tool(tools_by_name[call["name"]], call), tool_call_id=call["id"])
                    for call in state["messages"][-1].tool_calls
                ]
            }

        app = _graph(agent, tools)
        return lambda: app.invoke({"messages": [("user", "hi")]})["messages"]

    return build


def afrom_scratch(call_tool: CallTool) -> Callable[[Any, Any], Callable[[], Any]]:
    """:func:`from_scratch` in async code."""
    from langchain_core.messages import ToolMessage

    def build(model: Any, tool: Any) -> Callable[[], Any]:
        bound = model.bind_tools([tool])

        async def agent(state: Any) -> Any:
            return {"messages": [await bound.ainvoke(state["messages"])]}

        async def tools(state: Any) -> Any:
            calls = state["messages"][-1].tool_calls
            results = [await call_tool(tool, call) for call in calls]
            return {
                "messages": [
                    ToolMessage(result, tool_call_id=call["id"])
                    for call, result in zip(calls, results, strict=True)
                ]
            }

        return _ainvoking(_graph(agent, tools))

    return build


def _graph(agent: Any, tools: Any) -> Any:
    from langgraph.graph import START, MessagesState, StateGraph
    from langgraph.prebuilt import tools_condition

    graph = StateGraph(MessagesState).add_node("agent", agent).add_node("tools", tools)
    graph.add_edge(START, "agent").add_edge("tools", "agent")
    return graph.add_conditional_edges("agent", tools_condition).compile()


def _ainvoking(app: Any) -> Callable[[], Any]:
    async def drive() -> Any:
        return (await app.ainvoke({"messages": [("user", "hi")]}))["messages"]

    return drive


def tool_node(model: Any, tool: Any) -> Callable[[], Any]:
    """Build a graph with LangGraph's ``ToolNode``."""
    from langgraph.prebuilt import ToolNode

    bound = model.bind_tools([tool])
    app = _graph(lambda state: {"messages": [bound.invoke(state["messages"])]}, ToolNode([tool]))
    return lambda: app.invoke({"messages": [("user", "hi")]})["messages"]


def atool_node(model: Any, tool: Any) -> Callable[[], Any]:
    """:func:`tool_node` in async code."""
    from langgraph.prebuilt import ToolNode

    bound = model.bind_tools([tool])

    async def agent(state: Any) -> Any:
        return {"messages": [await bound.ainvoke(state["messages"])]}

    return _ainvoking(_graph(agent, ToolNode([tool])))


def created(model: Any, tool: Any) -> Callable[[], Any]:
    """Build an agent by ``create_agent``."""
    from langchain.agents import create_agent

    app = create_agent(model, [tool])
    return lambda: app.invoke({"messages": [("user", "hi")]})["messages"]


def acreated(model: Any, tool: Any) -> Callable[[], Any]:
    """:func:`created` in async code."""
    from langchain.agents import create_agent

    return _ainvoking(create_agent(model, [tool]))


# The OpenAI client, and frameworks on it.


_USAGE = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}


class Endpoint:
    """An OpenAI-compatible endpoint, also streaming."""

    def __init__(self, counted: CountedTool, *, repeats_ids: bool, final_tool: str | None = None) -> None:
        """``counted`` is the tool whose speculative runs its answers wait for.

        With ``repeats_ids`` each call has the id ``call_0``; the last answer is a call of ``final_tool``, if
        there is one.
        """
        self.results: list[str] = []
        self._counted = counted
        self._repeats_ids = repeats_ids
        self._final_tool = final_tool

    def __call__(self, request: Any) -> Any:
        """Answer a request of a sync client."""
        turn = self._turn(request)
        if turn < TURNS - 1:
            self._counted.wait_until_run(str(turn))
        return self._response(request, turn)

    async def answer(self, request: Any) -> Any:
        """Answer a request of an async client."""
        turn = self._turn(request)
        if turn < TURNS - 1:
            await self._counted.until_run(str(turn))
        return self._response(request, turn)

    def _turn(self, request: Any) -> int:
        body = json.loads(request.content)
        if "input" in body:
            self.results = [item["output"] for item in body["input"] if "output" in item]
            return len(self.results)
        self.results = [str(each["content"]) for each in body["messages"] if each["role"] == "tool"]
        return calls_made(body["messages"])

    def _response(self, request: Any, turn: int) -> Any:
        import httpx2

        name, arguments = (
            ("look", {"q": str(turn)}) if turn < TURNS - 1 else (self._final_tool, {"answer": "done"})
        )
        call_id = "call_0" if self._repeats_ids else f"call_{turn}"
        if request.url.path.endswith("/responses"):
            return _responses_answer(name, arguments, call_id)
        message: dict[str, Any] = {"role": "assistant", "content": "done"}
        if name is not None:
            function = {"name": name, "arguments": json.dumps(arguments)}
            call = {"index": 0, "id": call_id, "type": "function", "function": function}
            message = {"role": "assistant", "content": None, "tool_calls": [call]}
        reason = "tool_calls" if name is not None else "stop"
        body = {"id": f"answer-{turn}", "created": 0, "model": "m", "usage": _USAGE}
        if not json.loads(request.content).get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": reason}
            return httpx2.Response(200, json={**body, "object": "chat.completion", "choices": [choice]})
        parts = [
            {"index": 0, "delta": message, "finish_reason": None},
            {"index": 0, "delta": {}, "finish_reason": reason},
        ]
        chunks = [{**body, "object": "chat.completion.chunk", "choices": [part]} for part in parts]
        text = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
        return httpx2.Response(200, text=text, headers={"content-type": "text/event-stream"})


def _responses_answer(name: str | None, arguments: Any, call_id: str) -> Any:
    import httpx2

    item: dict[str, Any] = {"id": f"item_{call_id}", "status": "completed"}
    if name is None:
        text = {"type": "output_text", "text": "done", "annotations": []}
        item |= {"type": "message", "role": "assistant", "content": [text]}
    else:
        call = {"call_id": call_id, "name": name, "arguments": json.dumps(arguments)}
        item |= {"type": "function_call", **call}
    response = {"id": f"answer_{call_id}", "object": "response", "created_at": 0, "model": "m"}
    rest = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    return httpx2.Response(200, json={**response, **rest, "output": [item]})


SCHEMA = {
    "type": "function",
    "function": {
        "name": "look",
        "parameters": {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]},
    },
}


def openai_agent(*, direct: bool) -> Outcome:
    """Run a loop on the OpenAI client; ``direct``: it calls the function and not ``run_tool``."""
    import httpx2
    from openai import OpenAI

    from agentrt.adapters.openai import report_of, run_tool, speculate

    counted = CountedTool()
    endpoint = Endpoint(counted, repeats_ids=True)
    look = speculable(counted.function())
    http = httpx2.Client(transport=httpx2.MockTransport(endpoint))
    client = speculate(
        OpenAI(api_key="unused", base_url="http://server/v1", http_client=http), Oracle(), tools=[look]
    )
    messages: list[Any] = [{"role": "user", "content": "hi"}]
    while True:
        answer: Any = client.chat.completions.create(model="m", messages=messages, tools=[SCHEMA])  # type: ignore[list-item]
        message = answer.choices[0].message
        if not message.tool_calls:
            return Outcome(counted.runs, endpoint.results, report_of(client))
        messages.append(message.model_dump(exclude_none=True))
        for call in message.tool_calls:
            result = look(**json.loads(call.function.arguments)) if direct else run_tool(client, call)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})


FrameworkRun = Callable[[Any, Any], Coroutine[Any, Any, Any]]


def framework_agent(run: FrameworkRun, *, is_async: bool, repeats_ids: bool) -> Outcome:
    """Run an agent of a framework on the async OpenAI client: ``run(client, function)`` drives it."""
    import httpx2
    from openai import AsyncOpenAI

    from agentrt.adapters.openai import report_of, speculate

    counted = CountedTool()
    endpoint = Endpoint(counted, repeats_ids=repeats_ids)
    look: Any = speculable(counted.coroutine_function() if is_async else counted.function())

    async def main() -> Outcome:
        http = httpx2.AsyncClient(transport=httpx2.MockTransport(endpoint.answer))
        plain = AsyncOpenAI(api_key="unused", base_url="http://server/v1", http_client=http)
        client = speculate(plain, Oracle(), tools=[look])
        await run(client, look)
        return Outcome(counted.runs, endpoint.results, report_of(client))

    return asyncio.run(main())


async def openai_agents(client: Any, function: Any) -> None:
    """Run an agent of the OpenAI Agents SDK; tracing, which would send it to OpenAI, is off."""
    from agents import RunConfig, Runner

    await Runner.run(_openai_agent(client, function), "hi", run_config=RunConfig(tracing_disabled=True))


async def openai_agents_streamed(client: Any, function: Any) -> None:
    """:func:`openai_agents`, streamed."""
    from agents import RunConfig, Runner

    agent = _openai_agent(client, function)
    run = Runner.run_streamed(agent, "hi", run_config=RunConfig(tracing_disabled=True))
    async for _ in run.stream_events():
        pass


def _openai_agent(client: Any, function: Any) -> Any:
    from agents import Agent, OpenAIChatCompletionsModel, function_tool

    model = OpenAIChatCompletionsModel(model="m", openai_client=client)
    return Agent(name="agent", instructions="Use the tools.", tools=[function_tool(function)], model=model)


async def pydantic_ai(client: Any, function: Any) -> None:
    """Run an agent of pydantic-ai."""
    await _pydantic_agent(client, function).run("hi")


async def pydantic_ai_streamed(client: Any, function: Any) -> None:
    """:func:`pydantic_ai`, streamed."""
    async with _pydantic_agent(client, function).run_stream("hi") as answer:
        await answer.get_output()


def _pydantic_agent(client: Any, function: Any) -> Any:
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    agent = Agent(OpenAIChatModel("m", provider=OpenAIProvider(openai_client=client)))
    agent.tool_plain(function)
    return agent


def langchain_agents() -> dict[str, Callable[[], Outcome]]:
    """Return the agents on LangChain and LangGraph, by name."""
    agents: dict[str, Callable[[], Outcome]] = {}

    def add(name: str, build: Callable[[Any, Any], Callable[[], Any]], is_async: bool) -> None:
        agents[name] = lambda: langchain_agent(build, is_async=is_async)

    for how, call_tool in CALLS.items():
        add(f"LangChain loop, {how}", loop(call_tool), False)
        add(f"LangGraph from scratch, {how}", from_scratch(call_tool), False)
    for how, call_tool in ASYNC_CALLS.items():
        add(f"LangChain loop, {how}", aloop(call_tool), True)
        add(f"LangGraph from scratch, {how}", afrom_scratch(call_tool), True)
    add("LangGraph, ToolNode", tool_node, False)
    add("LangGraph, ToolNode, async", atool_node, True)
    add("create_agent", created, False)
    add("create_agent, async", acreated, True)
    return agents


def openai_client_agents() -> dict[str, Callable[[], Outcome]]:
    """Return the agents on the OpenAI client that need no framework, by name."""
    return {
        "OpenAI loop, repeated ids": lambda: openai_agent(direct=False),
        "OpenAI loop, calls of the function": lambda: openai_agent(direct=True),
    }


def framework_agents() -> dict[str, tuple[str, Callable[[], Outcome]]]:
    """Return the agents of frameworks on the OpenAI client, by name, each with the module it needs."""
    runs: dict[str, tuple[str, FrameworkRun]] = {
        "openai-agents": ("agents", openai_agents),
        "openai-agents, streamed": ("agents", openai_agents_streamed),
        "pydantic-ai": ("pydantic_ai", pydantic_ai),
        "pydantic-ai, streamed": ("pydantic_ai", pydantic_ai_streamed),
    }
    agents: dict[str, tuple[str, Callable[[], Outcome]]] = {}
    for name, (module, run) in runs.items():
        for is_async in (True, False):
            how = "async" if is_async else "sync"
            agents[f"{name}, {how} function"] = module, _framework_agent(run, is_async)
    return agents


def _framework_agent(run: FrameworkRun, is_async: bool) -> Callable[[], Outcome]:
    # openai-agents refuses an id that it has seen before.
    repeats = run in (pydantic_ai, pydantic_ai_streamed)
    return lambda: framework_agent(run, is_async=is_async, repeats_ids=repeats)


def session_agents() -> dict[str, Callable[[], Outcome]]:
    """Return the agents on a session, by name."""
    return {
        "session, without ids": lambda: session_agent(None),
        "session, repeated ids": lambda: session_agent("call_0"),
    }
