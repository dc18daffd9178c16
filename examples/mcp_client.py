"""A tool loop over an MCP server, without a framework: the server's read-only tools run speculatively.

    python examples/mcp_client.py
    python examples/mcp_client.py --model model.gguf "What does my note about the boiler say?"

The server is in this file, in the same process; `Client("https://…")` connects to one elsewhere. It needs
version 2 of the package mcp (the adapter also works with version 1).
"""

from __future__ import annotations

import asyncio
import json
from functools import partial
from typing import Annotated, Any

from agentrt.examples.gallery import TOKENS_PER_SECOND, needs_extras

with needs_extras("cli", "mcp", "runtime"):
    import typer
    from mcp import Client
    from mcp.server.mcpserver import MCPServer
    from mcp.types import ToolAnnotations

    from agentrt import SpeculationSession, ToolCall
    from agentrt.adapters.mcp import McpTool, speculable_tools
    from agentrt.examples.gallery.script import Model, run_script
    from agentrt.runtime import LocalRuntime
    from agentrt.runtime.nano import DRAFT_DIRECTORY
    from agentrt.speculators import LocalSpeculator, PatternSpeculator

NOTES = {
    "n1": ("Lasagne recipe", "Bake it for forty minutes at 190 degrees."),
    "n2": ("Boiler service", "The boiler was last checked in March."),
    "n3": ("Garden plan", "Plant the tulips by the fence."),
}
TOPICS = ("lasagne", "boiler", "garden")


# 1. The server. It says of its tools that they only read.

server = MCPServer("notes")
READS = ToolAnnotations(read_only_hint=True)


@server.tool(annotations=READS)
async def search_notes(query: str) -> str:
    """Search the user's notes."""
    await asyncio.sleep(0.2)
    words = query.lower().split()
    found = [id for id, (title, _) in NOTES.items() if any(word in title.lower() for word in words)]
    return json.dumps([{"id": id, "title": NOTES[id][0]} for id in found])


@server.tool(annotations=READS)
async def read_note(id: str) -> str:
    """Read a note by id."""
    await asyncio.sleep(0.2)
    title, text = NOTES[id]
    return json.dumps({"title": title, "text": text})


# 2. The model: an async function of messages and tools, in the shape of chat completions. Here it is the
# runtime in this process, with each token ``pace`` seconds later.


async def generate(runtime: LocalRuntime, pace: float, messages: Any, tools: Any) -> dict[str, Any]:
    """Return the model's answer."""
    answer = await runtime.agenerate(messages, tools=tools)
    await asyncio.sleep(pace * answer.usage.completion_tokens)
    calls = [(call.id, call.name, json.dumps(dict(call.arguments))) for call in answer.tool_calls]
    return {
        "role": "assistant",
        "content": answer.text,
        "tool_calls": [
            {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
            for id, name, arguments in calls
        ],
    }


# 3. The loop. The session speculates during `ask`, and `acall` returns the speculation's result if the model
# made that call. Calls of tools that write would go to `client.call_tool`, as without agentrt.


async def answer(question: str, session: SpeculationSession, model: Any, tools: list[McpTool]) -> str:
    """Return the answer to a question."""
    messages: list[Any] = [{"role": "user", "content": question}]
    while True:
        reply = await session.ask(model, messages, [tool.schema for tool in tools])
        messages.append(reply)
        if not reply["tool_calls"]:
            return str(reply["content"])
        for each in reply["tool_calls"]:
            call = ToolCall(each["function"]["name"], json.loads(each["function"]["arguments"]), each["id"])
            result = await session.acall(call)
            messages.append({"role": "tool", "tool_call_id": each["id"], "content": result.content[0].text})


# 4. The parts together.


async def converse(name: str, questions: list[str]) -> None:
    """Answer ``questions`` with the server's tools; print the answers and what was saved."""
    learner, drafts = PatternSpeculator(), LocalSpeculator(DRAFT_DIRECTORY, threads=1, shares_cores=False)
    with LocalRuntime.open(name) as runtime:
        model = partial(generate, runtime, 1 / TOKENS_PER_SECOND if name == "nano" else 0.0)
        async with Client(server) as client:
            tools = await speculable_tools(client, trusted=True)
            async with SpeculationSession(tools, [learner, drafts]) as session:
                for question in questions:
                    print(f"> {question}\n{await answer(question, session, model, tools)}")
                print(f"\n{session.report()}")


def main(questions: Annotated[list[str] | None, typer.Argument()] = None, model: Model = "nano") -> None:
    """Answer QUESTIONS about notes on an MCP server."""
    asyncio.run(converse(model, questions or [f"What does my note about {topic} say?" for topic in TOPICS]))


if __name__ == "__main__":
    run_script(main)
