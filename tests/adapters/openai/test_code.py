"""Agents on the OpenAI client that run the code which their model writes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from openai import OpenAI

from agentrt import SpeculationConfig, speculable
from agentrt.adapters.openai import report_of, speculate
from agentrt.speculators import CodeSpeculator
from tests.adapters.doubles import Milestones

pytestmark = pytest.mark.usefixtures("prediction_is_free")

ANSWERS = (
    'I look.\n<code>\nfound = look("a")\nprint(found)\n</code>',
    '<code>\nprint(look(q="b"))\n</code>',
    '<code>\nfinal_answer("done")\n</code>',
)


class Endpoint:
    """Streams the answers by words, and ends each once ``before_end`` has returned."""

    def __init__(self, before_end: Any) -> None:
        self.before_end = before_end
        self.requests = 0

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        turn, self.requests = self.requests, self.requests + 1
        body = self._body(turn)
        return httpx2.Response(200, content=body, headers={"content-type": "text/event-stream"})

    def _body(self, turn: int) -> Iterator[bytes]:
        for word in re.findall(r"\s*\S+|\s+$", ANSWERS[turn]):
            yield self._event({"content": word}, None)
        self.before_end(turn)
        yield self._event({}, "stop")
        yield b"data: [DONE]\n\n"

    def _event(self, delta: dict[str, Any], reason: str | None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        head = {"id": "x", "object": "chat.completion.chunk", "created": 0, "model": "m"}
        return f"data: {json.dumps({**head, 'choices': [choice]})}\n\n".encode()


class CodeAgent:
    """The tool ``look`` and a client that speculates on its calls; the model ends once ``look`` has run."""

    def __init__(self) -> None:
        self.runs: list[str] = []
        milestones = Milestones()

        def look(q: str) -> str:
            """Look something up.

            Args:
                q: What to look for.
            """
            self.runs.append(q)
            milestones.reach(q)
            return f"found {q}"

        def before_end(turn: int) -> None:
            if turn < 2:
                milestones.wait("ab"[turn])

        self.look = speculable(look)  # not as a decorator, of which smolagents warns
        transport = httpx2.MockTransport(Endpoint(before_end))
        http = httpx2.Client(transport=transport)
        self.client = speculate(
            OpenAI(api_key="unused", base_url="http://server/v1", http_client=http),
            CodeSpeculator([look]),
            tools=[self.look],
            config=SpeculationConfig(wasted_second_weight=0),
        )

    def check(self) -> None:
        """Check that each call has run once, while it was being written."""
        assert self.runs == ["a", "b"]
        total = report_of(self.client).total
        assert (total.claims, total.misses, total.wasted) == (2, 0, 0), str(report_of(self.client))


def test_a_loop_that_runs_code() -> None:
    agent = CodeAgent()
    printed: list[str] = []
    for _ in ANSWERS:
        answer = ""
        for chunk in agent.client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "go"}], stream=True
        ):
            answer += chunk.choices[0].delta.content or ""
        (code,) = re.findall(r"<code>\n(.*?)</code>", answer, re.DOTALL)
        exec(code, {"look": agent.look, "print": printed.append, "final_answer": printed.append})

    assert printed == ["found a", "found b", "done"]
    agent.check()


def test_smolagents() -> None:
    smolagents: Any = pytest.importorskip("smolagents", reason="needs smolagents")
    agent = CodeAgent()
    model = smolagents.OpenAIModel("m", api_key="unused")
    model.client = agent.client
    code_agent = smolagents.CodeAgent(
        tools=[smolagents.tool(agent.look)],
        model=model,
        stream_outputs=True,
        executor_kwargs={"timeout_seconds": None},  # else it runs code in a thread without the run's context
        verbosity_level=smolagents.LogLevel.OFF,
    )

    assert code_agent.run("go") == "done"
    agent.check()
