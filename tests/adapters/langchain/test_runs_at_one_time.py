"""Six runs of one graph that start at once, when nothing is known of the predictor yet."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain_core.messages import BaseMessage
from langchain_core.tools import tool

from agentrt import DraftRequest, ToolCall, speculable
from agentrt.adapters.langchain import report_of, speculate
from agentrt.testing import run_in_virtual_time
from tests.adapters.doubles import Calls, ScriptedChat
from tests.adapters.langchain.graphs import BUILDERS

ORDER: list[Calls] = [[("find_order", {})], [("read_order", {})]]


@speculable
@tool
async def find_order(text: str) -> str:
    """Find a customer's order."""
    await asyncio.sleep(1)
    return f"order of {text}"


@speculable
@tool
async def read_order(text: str) -> str:
    """Read an order."""
    await asyncio.sleep(1)
    return f"{text}: chairs"


class Ordering(ScriptedChat):
    """Finds the order of the customer that the user names, and reads it."""

    def _begin(self, messages: list[BaseMessage]) -> Any:
        answer = super()._begin(messages)
        for call in answer.tool_calls:
            call["args"] = {"text": str(messages[-1].content)}
        return answer


class Right:
    """Predicts every call, a second into the turn."""

    async def drafts(self, request: DraftRequest) -> Any:
        await asyncio.sleep(1)
        made = sum(message["role"] == "tool" for message in request.messages)
        for name, _ in ORDER[made] if made < 2 else ():
            yield ToolCall(name, {"text": request.messages[-1]["content"]})


@pytest.mark.parametrize("generation_s", [1.5, 5])
@pytest.mark.parametrize("build", BUILDERS)
def test_a_predictor_that_is_right_answers_all_calls_but_of_a_turn_that_measures(
    build: Any, generation_s: float
) -> None:
    model = speculate(Ordering(script=ORDER, delay=generation_s), Right())
    app = build(model, [find_order, read_order])
    names = ("ann", "bob", "cid", "dan", "eve", "fay")

    async def main() -> None:
        await asyncio.gather(*(app.ainvoke({"messages": [("user", name)]}) for name in names))

    run_in_virtual_time(main)
    total = report_of(model).total
    assert (total.calls, total.wasted) == (12, 0)
    assert total.claims >= 11
