"""Two apps on one server: many long answers of one, and a chat of the other."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx

from agentrt.runtime import LocalRuntime
from agentrt.runtime.serving.http.identity import Tokens
from tests.runtime.serving.http.serving import Start, until
from tests.runtime.serving.server.conftest import HELLO

POST = "/v1/chat/completions"
MANY = 40


def test_a_chat_does_not_wait_for_another_apps_answers(
    start: Start, runtime: LocalRuntime, gate: Any
) -> None:
    server = start(tokens=Tokens([("mail", "m" * 20), ("chat", "c" * 20)]))
    known = runtime._engine._outputs._requests
    with ThreadPoolExecutor(MANY + 1) as threads, httpx.Client(base_url=server.url, timeout=60) as http:

        def ask(letter: str, max_tokens: int) -> Any:
            body = {"model": "nano", "messages": HELLO, "max_tokens": max_tokens, "ignore_eos": True}
            headers = {"authorization": f"Bearer {letter * 20}"}
            return threads.submit(http.post, POST, json=body, headers=headers)

        def step_until(done: Callable[[], bool]) -> int:
            before = len(gate.steps)
            while not done():
                gate.step()
            return len(gate.steps) - before

        long = [ask("m", 200) for _ in range(MANY)]
        gate.arrived()
        step_until(lambda: len(known) == MANY and len(gate.steps[-1]) == 16)
        chat = ask("c", 1)
        step_until(lambda: len(known) > MANY)  # a request is taken in between two steps
        assert step_until(lambda: "chat" in {chunk.sequence.app for chunk in gate.steps[-1]}) <= 2
        gate.open()
        assert [each.result().status_code for each in (chat, *long)] == [200] * (MANY + 1)
    until(lambda: server.admission.active == 0)
