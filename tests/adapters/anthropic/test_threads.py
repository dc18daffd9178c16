"""Message threads, whose requests have only what is new, and the tool runner, which asks for one."""

from __future__ import annotations

from typing import Any

import anthropic
import pytest

from agentrt import speculable
from agentrt.adapters.anthropic import report_of, speculate
from agentrt.testing import run_in_virtual_time
from tests.adapters.anthropic.doubles import ASKED, Endpoint
from tests.adapters.doubles import Milestones, Oracle
from tests.adapters.stainless.doubles import AHEAD, HI, THREE, TIMES, look_tool

pytestmark = pytest.mark.usefixtures("no_thread_at_the_first_request", "prediction_is_free")


@pytest.mark.parametrize("holds_threads", [False, True], ids=["whole history", "threads"])
@pytest.mark.parametrize("is_streamed", [False, True])
def test_the_clients_tool_runner_gets_results_of_speculations(is_streamed: bool, holds_threads: bool) -> None:
    milestones, runs, asked = Milestones(), list[str](), list[int]()

    @anthropic.beta_tool
    @speculable
    def look(q: str) -> str:
        """Look.

        Args:
            q: what for
        """
        runs.append(q)
        milestones.reach(f"run {len(runs)}")
        return f"found {q}"

    def gate(turn: int) -> None:
        asked.append(turn)
        if turn < 3:
            milestones.wait(f"run {len(asked)}")

    endpoint = Endpoint(THREE, gate=gate, holds_threads=holds_threads)
    with endpoint.client() as plain:
        client = speculate(plain, Oracle(THREE, delay=0), tools=[look])
        runner: Any = client.beta.messages.tool_runner(
            model="m", max_tokens=64, messages=[HI], tools=[look], stream=is_streamed
        )
        assert runner.until_done().content[0].text == "done"
        assert report_of(client).total.claims == 3
    # A request for a thread, as newer versions send it, may be refused, and its speculation with it.
    refused = not holds_threads and bool(endpoint.requests[0].get("thread"))
    assert runs == ["q0"] * refused + ["q0", "q1", "q2"]
    sent = [message for body in endpoint.requests for message in body["messages"]]
    results = [each["content"][0].get("content") for each in sent if each not in (HI,)]
    assert results[-1] == "found q2"


def test_no_request_is_sent_ahead_in_a_thread() -> None:
    endpoint = Endpoint(THREE, delay=TIMES.generation, holds_threads=True)

    async def main() -> Any:
        async with endpoint.async_client() as plain:
            oracle = Oracle(THREE, delay=TIMES.draft)
            client = speculate(plain, oracle, tools=[look_tool(TIMES.tool)], config=AHEAD)
            await client.beta.messages.create(messages=[HI], thread={"type": "create"}, **ASKED)
            return report_of(client).ahead

    assert run_in_virtual_time(main).wasted == 0
    assert len(endpoint.requests) == 1
