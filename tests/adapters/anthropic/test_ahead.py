"""Turn-ahead on the Anthropic client: kept only for an equal request."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
from anthropic import AsyncAnthropic

from agentrt.adapters import anthropic
from agentrt.adapters.anthropic import arun_tool, report_of, speculate
from agentrt.testing import run_in_virtual_time
from tests.adapters.anthropic.doubles import ASKED, Endpoint, create, loop, stream_helper
from tests.adapters.doubles import Oracle
from tests.adapters.stainless.doubles import AHEAD, HI, THREE, TIMES, look_tool, timed

pytestmark = pytest.mark.usefixtures("no_thread_at_the_first_request", "prediction_is_free")


@pytest.mark.parametrize("ask", [create, stream_helper])
@pytest.mark.parametrize(
    "change", [{"stop_sequences": ["x"]}, {"system": "be brief"}, {"extra_headers": {"a": "b"}}]
)
def test_another_request_does_not_take_an_answer_requested_ahead(
    ask: Callable[..., Any], change: dict[str, Any]
) -> None:
    endpoint = Endpoint(THREE, delay=TIMES.generation)

    async def main() -> Any:
        async with endpoint.async_client() as plain:
            oracle = Oracle(THREE, delay=TIMES.draft)
            client = speculate(plain, oracle, tools=[look_tool(TIMES.tool)], config=AHEAD)
            (call,) = await ask(client, [HI])
            result = {"type": "tool_result", "tool_use_id": call.id, "content": await arun_tool(client, call)}
            history = [HI, {"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
            await client.messages.create(messages=history, **ASKED, **change)
            return report_of(client).ahead

    assert run_in_virtual_time(main).kept == 0
    assert endpoint.requests[-1].items() >= {k: v for k, v in change.items() if k != "extra_headers"}.items()


def test_a_response_that_the_user_reads_is_not_requested_ahead() -> None:
    async def read(client: AsyncAnthropic, history: list[Any]) -> Any:
        async with client.messages.with_streaming_response.create(messages=history, **ASKED) as response:
            return (await response.parse()).content

    endpoint = Endpoint(THREE, delay=TIMES.generation)
    _, _, client = timed(anthropic, endpoint, functools.partial(loop, ask=read), [], AHEAD)
    assert (report_of(client).ahead.kept, report_of(client).ahead.wasted) == (0, 0)
