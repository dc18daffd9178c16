"""The gateway before an engine: results of tools ahead of the calls, and one stream instead of two requests.

    python examples/cluster_gateway.py
    python examples/cluster_gateway.py --upstream http://vllm:8000/v1 --model Qwen/Qwen2.5-7B-Instruct
    python examples/cluster_gateway.py --gateway http://gateway:8000/v1 --model Qwen/Qwen2.5-7B-Instruct

An engine such as vLLM ends its answer where the model calls a tool; the client then sends a second request
with the result. `agentrt gateway` in front of the engine takes results of speculations ahead of the calls,
sends the second request itself, and the answer goes on in the same stream. A result that comes after its
call costs a second request, as ever; how many do depends on the machine, and they are counted. Without
--upstream the engine is `agentrt serve` on this machine. --gateway names a gateway that runs already, whose
token is OPENAI_API_KEY.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from contextlib import ExitStack
from typing import Annotated, Any

from agentrt.examples.gallery import needs_extras

with needs_extras("openai", "serve"):
    import typer
    from openai import AsyncOpenAI

    from agentrt import SpeculationReport, speculable
    from agentrt.adapters.openai import report_of, speculate
    from agentrt.examples.gallery.script import Model, run_script, running
    from agentrt.runtime.nano import DRAFT_DIRECTORY
    from agentrt.speculators import LocalSpeculator, PatternSpeculator

CITIES = ["Oslo", "Rome", "Lima", "Bern", "Paris", "Lisbon", "Bergen", "Cairo"]


# 1. A tool that only reads, and how the model sees it.


@speculable
async def get_weather(city: str) -> str:
    """Get the weather in a city."""
    await asyncio.sleep(0.005)  # as a service nearby does; a quicker lookup gains nothing by an early start
    return json.dumps({"temperature": 10 + len(city), "sky": "clear"})


PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
FUNCTION = {"name": "get_weather", "description": "Get the weather in a city.", "parameters": PARAMETERS}
TOOLS: Any = [{"type": "function", "function": FUNCTION}]


# 2. A tool loop as for any endpoint. Each round is a request; where the result was there before the call, the
# first one ends in the answer.


async def ask(client: AsyncOpenAI, model: str, question: str) -> tuple[str, int, int]:
    """Return the answer, how many requests it took, and how many calls were answered within their stream."""
    messages: list[Any] = [{"role": "user", "content": question}]
    requests = answered = 0
    while True:
        requests += 1
        async with client.chat.completions.stream(model=model, messages=messages, tools=TOOLS) as stream:
            async for event in stream:
                if event.type == "chunk":
                    deltas = [each.delta for each in event.chunk.choices]
                    answered += sum(len(getattr(delta, "tool_results", None) or ()) for delta in deltas)
            choice = (await stream.get_final_completion()).choices[0]
        if choice.finish_reason != "tool_calls":
            return choice.message.content or "", requests, answered
        made = [(call.id, call.function) for call in choice.message.tool_calls or ()]
        calls = [
            {"id": id, "type": "function", "function": {"name": each.name, "arguments": each.arguments}}
            for id, each in made
        ]
        messages.append({"role": "assistant", "content": None, "tool_calls": calls})
        for id, each in made:
            result = await get_weather(**json.loads(each.arguments))
            messages.append({"role": "tool", "tool_call_id": id, "content": result})


# 3. The same questions by a plain client and by one that submits results.


async def compare(url: str, model: str) -> None:
    """Ask about the weather through the gateway at ``url``; print the answers and the numbers of requests."""
    plain = AsyncOpenAI(base_url=url, api_key=os.environ.get("OPENAI_API_KEY", "unused"))
    learner, drafts = PatternSpeculator(), LocalSpeculator(DRAFT_DIRECTORY, threads=1, shares_cores=False)
    faster = speculate(plain, [learner, drafts], tools=[get_weather], tool_cache=True)
    questions = [f"What is the weather in {city}?" for city in CITIES]
    before = [await ask(plain, model, question) for question in questions]
    after = [await ask(faster, model, question) for question in questions]

    for question, (answer, _, _) in zip(questions, after, strict=True):
        print(f"> {question}\n{answer}")
    few, many = (sum(requests for _, requests, _ in each) for each in (after, before))
    print(f"\n{many} requests without results ahead of the calls, {few} with them;", end=" ")
    same = [answer for answer, _, _ in before] == [answer for answer, _, _ in after]
    print("the answers are equal." if same else "the answers differ.")
    report = report_of(faster)
    print(calls_in_stream(report, sum(answered for _, _, answered in after)))
    print(report)


def calls_in_stream(report: SpeculationReport, answered: int) -> str:
    """Return how many calls the gateway has ``answered`` in their stream, and why not the others."""
    calls = [call for turn in report.turns for call in turn.calls]
    missed = Counter(call.reason for call in calls if not call.hit)
    missed["its result came after the call"] = len(calls) - answered - missed.total()
    reasons = "".join(f"; {count}: {reason}" for reason, count in missed.items() if count > 0)
    return f"{answered} of {len(calls)} calls were answered in their stream{reasons}"


# 4. The engine, if there is none, and the gateway before it.


def main(
    upstream: Annotated[str | None, typer.Option(help="The base URL of an engine that runs already.")] = None,
    gateway: Annotated[
        str | None, typer.Option(help="The base URL of a gateway that runs already; --upstream is its own.")
    ] = None,
    model: Model = "nano",
) -> None:
    """Ask an engine about the weather through a gateway, without results ahead of the calls and with them."""
    if gateway is not None:
        asyncio.run(compare(gateway, model))
        return
    with ExitStack() as stack:
        engine = upstream or stack.enter_context(
            running("serve", "--model", model, "--served-model-name", "local")
        )
        url = stack.enter_context(running("gateway", "--upstream", engine))
        asyncio.run(compare(url, model if upstream else "local"))


if __name__ == "__main__":
    run_script(main)
