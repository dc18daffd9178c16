"""An endpoint with the paper's ``POST /cache-tool-output/{response_id}`` and nothing that names it.

It is asked by an empty list. A tool output goes only to a host that has answered that it cached nothing.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any

import anthropic
import openai
import pytest

from agentrt import ToolCall
from agentrt.adapters.stainless import tool_cache
from agentrt.adapters.stainless.tool_cache import CAPABILITY, ToolCacheEndpoint, ToolCaches
from agentrt.testing import run_in_virtual_time
from agentrt.toolcache import FinishedCall
from tests.adapters.recording_server import Received, RecordingServer, recording_server
from tests.adapters.test_tool_cache_on_the_wire import CLIENTS, FOUND, Asking, Result, messages, serving
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.usefixtures("prediction_is_free")

FINISHED = FinishedCall(ToolCall("look", {"q": "a"}), "found", 1.0)
ENTRY = {"name": "look", "params": {"q": "a"}, "output": "found", "keep_alive": 1.0}
JSON = "application/json"
Answer = tuple[int, str, str]


def answering(answer: Answer) -> Callable[[Received], Answer | None]:
    """Answers all that comes by the paper's route."""
    return lambda received: answer if "cache-tool-output" in received.path else None


def no_models(received: Received) -> Answer | None:
    return (404, JSON, "{}") if received.path.endswith("/models") else None


def only_at_the_root(received: Received) -> Answer | None:
    return (404, JSON, "{}") if received.path.startswith("/v1/cache-tool-output") else None


@pytest.mark.parametrize("answer_as", [lambda received: None, no_models, only_at_the_root])
@pytest.mark.parametrize("ask", CLIENTS)
def test_an_endpoint_with_the_route_gets_the_papers_fields(
    ask: Callable[..., Result], answer_as: Callable[[Received], Answer | None]
) -> None:
    with serving(answer_as=answer_as) as server:
        ask(server, Asking(True, FOUND))
        *asked, output = server.outputs
    at_the_root = ask is messages or answer_as is only_at_the_root
    response_id = "msg_0" if ask is messages else "x"
    assert output.path == f"{'' if at_the_root else '/v1'}/cache-tool-output/{response_id}"
    (entry,) = output.body
    assert 0 < entry.pop("keep_alive") <= 5
    assert entry == {"name": "look", "params": {"q": "a"}, "output": '{"found": "a"}'}
    assert [each.body for each in asked] == [[]] * (2 if at_the_root and ask is not messages else 1)
    assert [each.path.endswith("/models") for each in server.received].count(True) == 1


def openai_client(server: RecordingServer, endpoint: ToolCacheEndpoint) -> None:
    with server.client() as client:
        endpoint._submit(client, "x", FINISHED)


def async_openai_client(server: RecordingServer, endpoint: ToolCacheEndpoint) -> None:
    async def main() -> None:
        async with server.async_client() as client:
            await endpoint._asubmit(client, "x", FINISHED)

    asyncio.run(main())


def anthropic_client(server: RecordingServer, endpoint: ToolCacheEndpoint) -> None:
    with server.anthropic_client() as client:
        endpoint._submit(client, "msg_0", FINISHED)


SUBMITTERS = [(openai, openai_client), (openai, async_openai_client), (anthropic, anthropic_client)]


@pytest.mark.parametrize(
    "answer",
    [
        (404, JSON, '{"cached": 0}'),
        (405, JSON, "{}"),
        (200, "text/html", "<html><body>Welcome!</body></html>"),
        (200, "text/html", '{"cached": 0}'),
        (200, JSON, "not JSON"),
        (200, JSON, "[]"),
        (200, JSON, "{}"),
        (200, JSON, '{"cached": 1}'),
        (200, JSON, '{"cached": false}'),
        (200, JSON, '{"cached": "0"}'),
        (204, JSON, ""),
    ],
)
@pytest.mark.parametrize(("library", "submit"), SUBMITTERS)
def test_an_endpoint_that_answers_anything_else_is_asked_once_and_gets_no_output(
    library: Any, submit: Callable[..., None], answer: Answer
) -> None:
    endpoint = ToolCacheEndpoint(library)
    with recording_server(answer_as=answering(answer)) as server:
        submit(server, endpoint)
        assert not endpoint.may_have_cache
        submit(server, endpoint)
        asked = {one.path: one.body for one in server.outputs}
        assert len(asked) == len(server.outputs)
    assert all(body == [] for body in asked.values())
    assert len(asked) == (1 if library is anthropic else 2)  # below the base URL, and at the host's root


@pytest.mark.parametrize(("library", "submit"), SUBMITTERS)
def test_an_endpoint_that_lists_other_capabilities_is_not_asked(
    library: Any, submit: Callable[..., None]
) -> None:
    with recording_server(capabilities=["embeddings"]) as server:
        submit(server, ToolCacheEndpoint(library))
        assert server.outputs == []


@pytest.mark.parametrize("capabilities", [None, [CAPABILITY]])
@pytest.mark.parametrize(("library", "submit"), SUBMITTERS)
def test_neither_a_question_nor_an_output_is_redirected_to_another_host(
    library: Any, submit: Callable[..., None], capabilities: list[str] | None
) -> None:
    with recording_server() as other:
        moved = {"location": f"{other.url}/cache-tool-output/x"}
        redirect = answering((307, JSON, "{}"))
        with recording_server(answer_as=redirect, capabilities=capabilities, headers=moved) as server:
            submit(server, ToolCacheEndpoint(library))
            assert server.outputs
        assert other.received == []


def test_what_one_base_url_has_answered_is_not_taken_for_another_s_answer() -> None:
    refused = answering((404, JSON, "{}"))
    with recording_server() as server, recording_server(answer_as=refused) as other:
        with server.client() as client:
            caches, elsewhere = ToolCaches(openai), client.with_options(base_url=other.url)
            for each in (client, elsewhere, client):
                caches.of(each)._submit(each, "x", FINISHED)
        assert [one.body for one in server.outputs] == [[], [ENTRY], [ENTRY]]
        assert [one.body for one in other.outputs] == [[], []]


@pytest.mark.parametrize("in_threads", [False, True])
def test_results_that_come_at_one_time_ask_once(in_threads: bool) -> None:
    endpoint = ToolCacheEndpoint(openai)

    async def main(server: RecordingServer) -> None:
        with server.client() as client:
            async with server.async_client() as async_client:
                submissions = [
                    asyncio.to_thread(endpoint._submit, client, "x", FINISHED)
                    if in_threads
                    else endpoint._asubmit(async_client, "x", FINISHED)
                    for _ in range(3)
                ]
                await asyncio.gather(*submissions)

    with recording_server() as server:
        asyncio.run(main(server))
        assert [one.body for one in server.outputs] == [[], *[[ENTRY]] * 3]


@pytest.mark.usefixtures("no_thread_at_the_first_request")
def test_an_endpoint_that_hangs_is_not_waited_for() -> None:
    over = threading.Event()

    def hang(received: Received) -> Answer | None:
        over.wait(PATIENCE_S)
        return 200, JSON, json.dumps({"cached": 0})

    class Models:
        async def list(self, **options: Any) -> AsyncIterator[Any]:
            for model in ():
                yield model

    async def main() -> float:
        endpoint = ToolCacheEndpoint(openai)
        base_url = server.url.removesuffix("/v1")
        async with openai.AsyncOpenAI(base_url=base_url, api_key="none", timeout=None) as plain:
            client = SimpleNamespace(models=Models(), post=plain.post, base_url=plain.base_url)
            while endpoint.may_have_cache:
                await endpoint._asubmit(client, "x", FINISHED)
        return asyncio.get_running_loop().time()

    with recording_server(answer_as=hang) as server:
        try:
            # Three questions; time that is waited for the socket does not pass.
            assert run_in_virtual_time(main) == 3 * tool_cache.ASKING_SECONDS
        finally:
            over.set()
        assert all(one.body == [] for one in server.outputs)
