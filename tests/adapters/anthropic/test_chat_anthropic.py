"""LangChain's model of Anthropic's form, as it is, below ``speculate`` of the LangChain adapter."""

from __future__ import annotations

import pytest

pytest.importorskip("langchain_anthropic")

from langchain.agents import create_agent
from langchain_anthropic import ChatAnthropic
from langchain_core.tools import tool

from agentrt import speculable
from agentrt.adapters.langchain import report_of, speculate
from tests.adapters.anthropic.doubles import URL, Endpoint
from tests.adapters.doubles import Milestones, Oracle
from tests.adapters.stainless.doubles import THREE


@pytest.mark.usefixtures("prediction_is_free")
@pytest.mark.parametrize("streamed", [False, True])
def test_an_agent_claims_every_call(streamed: bool) -> None:
    milestones, runs = Milestones(), list[str]()

    @speculable
    @tool
    def look(q: str) -> str:
        """Look."""
        runs.append(q)
        milestones.reach(f"started {q}")
        return f"found {q}"

    with Endpoint(THREE, gate=milestones.until_started).client():  # whose requests all clients here send
        chat = ChatAnthropic(
            model="m", base_url=URL, api_key="none", max_tokens=64, max_retries=0, streaming=streamed
        )  # type: ignore[call-arg]
        model = speculate(chat, Oracle(THREE, delay=0))
        said = create_agent(model, [look]).invoke({"messages": [("user", "hi")]})["messages"]
    assert [each.content for each in said if each.type == "tool"] == ["found q0", "found q1", "found q2"]
    assert (runs, report_of(model).total.claims) == (["q0", "q1", "q2"], 3)
