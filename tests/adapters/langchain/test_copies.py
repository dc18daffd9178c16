"""Copies of speculable tools and speculating models, as agent frameworks make them."""

from __future__ import annotations

import asyncio
import copy
import pickle
from typing import Any

import pytest
from langchain_core.tools import BaseTool

from agentrt import SpeculationSession, ToolCall, speculable
from agentrt.adapters.langchain import report_of, speculate
from agentrt.errors import ConfigurationError
from agentrt.testing import ScriptedSpeculator, run_in_virtual_time
from tests.adapters.doubles import Oracle, ScriptedChat
from tests.adapters.langchain.graphs import INPUT, after_turn, agent, async_tool, transcript

CALL = [("look", {"q": "q0"})]
DRAFT = [ToolCall("look", {"q": "q0"})]


class Library(BaseTool):
    """A tool with a setting of its own."""

    name: str = "look"
    description: str = "Look something up."
    shelf: str = "A"

    def _run(self, q: str) -> str:
        return f"{q} on {self.shelf}"

    async def _arun(self, q: str) -> str:
        await asyncio.sleep(30)
        return self._run(q)


def said(model: Any, tool: Any, times: int = 1) -> list[Any]:
    async def main() -> list[Any]:
        graph = agent(model, [tool])
        return [transcript((await graph.ainvoke(INPUT))["messages"]) for _ in range(times)]

    return run_in_virtual_time(main)


def test_a_deep_copy_of_model_and_tool_speculates_into_one_report() -> None:
    runs: list[str] = []
    oracle: Any = Oracle([CALL], delay=5)
    oracle.shares_cores = False  # no turn measures the model without it
    given = speculate(ScriptedChat(script=[CALL], delay=40), oracle), async_tool(30, runs)
    model, look = copy.deepcopy(given)
    assert type(look) is type(given[1])
    first, second = said(model, look, times=2)
    assert first == second == said(ScriptedChat(script=[CALL]), given[1])[0]
    assert runs == ["q0", "q0", "q0"]
    assert report_of(model).total.claims == report_of(given[0]).total.claims == 2


def test_a_deep_copy_of_a_bound_model_speculates_on_its_copies_of_the_tools() -> None:
    look = async_tool(30, [])
    model = speculate(ScriptedChat(script=[CALL], delay=40), ScriptedSpeculator(DRAFT, DRAFT))
    bound, copied = copy.deepcopy((model.bind_tools([look]), look))

    async def main() -> int:
        answer = await bound.ainvoke("hi")
        await copied.ainvoke(answer.tool_calls[0])
        return report_of(bound).total.claims

    assert run_in_virtual_time(main) == 1


@pytest.mark.parametrize("deep", [True, False])
def test_a_changed_copy_claims_no_result_of_the_original(deep: bool) -> None:
    original = speculable(Library())
    copied = original.model_copy(update={"shelf": "B"}, deep=deep)
    if deep:
        copied = copy.deepcopy(original)
        copied.shelf = "B"

    async def main() -> tuple[Any, Any]:
        async with after_turn(original, DRAFT, ToolCall("look", {"q": "q0"}, "call_1")):
            call: Any = {"type": "tool_call", "name": "look", "args": {"q": "q0"}, "id": "call_1"}
            return (await copied.ainvoke(call)).content, (await original.ainvoke(call)).content

    assert run_in_virtual_time(main) == ("q0 on B", "q0 on A")


@pytest.mark.parametrize("update", [{}, {"shelf": "B"}])
def test_a_plain_copy_claims_and_a_changed_one_speculates_for_itself(update: dict[str, Any]) -> None:
    look = speculable(Library()).model_copy(update=update)
    model = speculate(ScriptedChat(script=[CALL], delay=40), ScriptedSpeculator(DRAFT))
    assert said(model, look)[0][2][1] == f"q0 on {update.get('shelf', 'A')}"
    assert report_of(model).total.claims == 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: async_tool(1, []),
        lambda: speculate(ScriptedChat(script=[]), ScriptedSpeculator()),
        lambda: SpeculationSession([async_tool(1, [])], []),
    ],
)
def test_what_belongs_to_this_process_says_that_it_cannot_be_pickled(make: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"cannot be (pickled|copied)\. (Pickle|Create)"):
        pickle.dumps(make())


def test_a_session_cannot_be_copied() -> None:
    for copied in (copy.copy, copy.deepcopy):
        with pytest.raises(ConfigurationError, match="one run"):
            copied(SpeculationSession([], []))
