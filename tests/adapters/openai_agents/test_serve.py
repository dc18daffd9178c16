"""An agent of the Agents SDK on ``agentrt serve``, by both APIs: the same answers as without speculation."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("agents", reason="needs the extra openai-agents")

from agents import Agent, ModelSettings, OpenAIChatCompletionsModel, OpenAIResponsesModel, function_tool
from agents.models.interface import Model
from openai import AsyncOpenAI

from agentrt import ToolCall, speculable
from agentrt.adapters.openai_agents import report_of, speculate
from agentrt.runtime import LocalRuntime
from agentrt.runtime.serving.server import ServerConfig, create_app
from tests.adapters.openai_agents.doubles import Drafts, Runs, outputs, run
from tests.runtime.serving.http.serving import listening

pytestmark = pytest.mark.usefixtures("prediction_is_free")

QUESTION = "What is the weather in Ljubljana?"
GREEDY = ModelSettings(temperature=0, max_tokens=60)


@pytest.fixture(scope="module")
def url(exact_runtime: LocalRuntime) -> Iterator[str]:
    config = ServerConfig(port=0, drain_s=5)
    app = create_app(exact_runtime, config)
    with listening(app, config) as server:
        yield f"{server.url}/v1"


@pytest.mark.socket
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("kind", [OpenAIChatCompletionsModel, OpenAIResponsesModel])
def test_an_agent_on_the_local_server(
    url: str, start_engine: Callable[[], None], kind: Any, streamed: bool
) -> None:
    runs = Runs()

    @function_tool
    async def get_weather(city: str) -> str:
        """Get the current weather in a city."""
        runs.note(city)
        start_engine()
        return '{"city": "Ljubljana", "degrees": 21, "sky": "clear"}'

    async def main(speculates: bool) -> tuple[list[str], str, int]:
        runs.made.clear()
        async with AsyncOpenAI(base_url=url, api_key="none", max_retries=0, timeout=60) as client:
            chat: Model = kind("nano", client)
            tool: Any = get_weather
            if speculates:
                draft = ToolCall("get_weather", {"city": "Ljubljana"})
                chat, tool = speculate(chat, Drafts([draft])), speculable(tool)
            agent = Agent(name="agent", model=chat, tools=[tool], model_settings=GREEDY)
            result = await run(agent, streamed=streamed, input=QUESTION)
        assert runs.made == ["Ljubljana"]
        return outputs(result), result.final_output, report_of(chat).total.claims if speculates else 0

    *speculative, claims = asyncio.run(main(speculates=True))  # the engine waits for the speculation
    *plain, _ = asyncio.run(main(speculates=False))

    assert speculative == plain
    assert claims == 1
