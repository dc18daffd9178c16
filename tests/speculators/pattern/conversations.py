"""Conversations of an agent, and how a predictor follows them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

from agentrt import DraftRequest, ToolCall
from agentrt.speculators import PatternSpeculator


def tool(name: str, *parameters: str) -> dict[str, Any]:
    properties = {parameter: {"type": "string"} for parameter in parameters}
    schema = {"type": "object", "properties": properties, "required": list(parameters)}
    return {"type": "function", "function": {"name": name, "parameters": schema}}


TOOLS = [tool("list_orders", "customer"), tool("read_order", "order_id"), tool("send_reply", "text")]


class Conversation:
    """An agent that lists a customer's orders, reads each of them, and answers."""

    def __init__(self, customer: str, orders: list[str]) -> None:
        self.messages: list[dict[str, Any]] = [
            {"role": "user", "content": f"What did my customer {customer} order?"}
        ]
        results: list[tuple[ToolCall, Any]] = [(ToolCall("list_orders", {"customer": customer}), orders)]
        results += [(ToolCall("read_order", {"order_id": each}), {"items": 3}) for each in orders]
        self.results = results

    def turns(self) -> Iterator[tuple[DraftRequest, list[ToolCall]]]:
        for number, (call, result) in enumerate(self.results):
            yield DraftRequest(list(self.messages), TOOLS), [call]
            made = {"name": call.name, "arguments": json.dumps(dict(call.arguments))}
            calls = [{"id": f"c{number}", "type": "function", "function": made}]
            self.messages.append({"role": "assistant", "content": None, "tool_calls": calls})
            self.messages.append(
                {"role": "tool", "tool_call_id": f"c{number}", "content": json.dumps(result)}
            )
        yield DraftRequest(list(self.messages), TOOLS), []


def orders(number: int) -> Conversation:
    return Conversation(f"cust_{number}", [f"ORD{number}{each}" for each in range(3)])


def predictions(predictor: PatternSpeculator, request: DraftRequest) -> list[ToolCall]:
    async def collect() -> list[ToolCall]:
        return [call async for call in predictor.drafts(request)]

    return asyncio.run(collect())


def live_through(predictor: PatternSpeculator, conversation: Conversation) -> list[bool]:
    """For each call of a conversation whether it was predicted; the predictor learns on the way."""
    hits = []
    for request, calls in conversation.turns():
        drafts = predictions(predictor, request)
        hits += [call in drafts for call in calls]
        predictor.learn(request, calls)
    return hits
