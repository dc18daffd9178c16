"""``DELETE /v1/contexts``: everything of one app, and of no other."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import openai
import pytest

from tests.runtime.conftest import Gate
from tests.runtime.serving.server.conftest import HELLO
from tests.runtime.serving.server.test_contexts import LONG, ask, continuing, new, two_apps

__all__ = ["two_apps"]

SHORT = {"model": "nano", "messages": HELLO, "max_tokens": 2}


def everything(http: httpx.Client) -> str:
    """Make a context, a session and a response; return the id of the response."""
    context = new(http)
    http.post(f"/v1/contexts/{context['id']}/chat/completions", json=SHORT).raise_for_status()
    http.post("/v1/chat/completions", json=SHORT, headers={"x-session-id": "7"}).raise_for_status()
    body = {"input": "Hello!", "max_output_tokens": 2}
    return str(http.post("/v1/responses", json=body).raise_for_status().json()["id"])


def kinds(http: httpx.Client) -> list[str]:
    return sorted(context["kind"] for context in http.get("/v1/contexts").json()["data"])


def test_everything_of_one_app_is_deleted(two_apps: list[httpx.Client]) -> None:
    one, two = two_apps
    responses = [everything(http) for http in two_apps]
    before = two.get("/v1/contexts").json()
    deleted = one.delete("/v1/contexts")
    assert (deleted.status_code, deleted.json()) == (200, {"object": "list", "deleted": True})
    assert kinds(one) == []
    assert one.get(f"/v1/responses/{responses[0]}").status_code == 404
    assert two.get("/v1/contexts").json() == before
    assert two.get(f"/v1/responses/{responses[1]}").status_code == 200
    assert one.delete("/v1/contexts").status_code == 200  # there is nothing left, which is no error
    everything(one)
    assert kinds(one) == ["context", "responses", "session"]


def test_what_was_computed_is_not_found_again(two_apps: list[httpx.Client]) -> None:
    def cached(http: httpx.Client) -> int:
        body = SHORT | {"messages": [{"role": "user", "content": "Find my notes about lasagne. " * 20}]}
        usage = http.post("/v1/chat/completions", json=body).raise_for_status().json()["usage"]
        return int(usage["prompt_tokens_details"]["cached_tokens"])

    one, two = two_apps
    assert [cached(http) for http in two_apps] == [0, 0]
    one.delete("/v1/contexts")
    assert cached(one) == 0
    assert cached(one) > 0
    assert cached(two) > 0


def test_calls_in_progress_end(http: httpx.Client, gate: Gate) -> None:
    context = new(http)
    with continuing(http, context) as client, ThreadPoolExecutor(1) as pool:
        call = pool.submit(ask, client, "Hello!", **LONG)
        gate.arrived()
        assert http.delete("/v1/contexts").status_code == 200
        gate.allow(400)
        with pytest.raises(openai.NotFoundError):
            call.result(60)
    assert kinds(http) == []


@pytest.mark.parametrize("path", ["/v1/contexts/", "/v1/contexts//", "/v1/contexts/%2F", "/v1/contexts/a/b"])
def test_an_id_that_is_none_deletes_nothing(http: httpx.Client, path: str) -> None:
    new(http)
    response = http.delete(path, follow_redirects=True)
    assert response.status_code == 404
    assert response.json()["error"]["code"] == "context_not_found"
    assert kinds(http) == ["context"]


@pytest.mark.parametrize("query", [{"kind": "session"}, {"limit": 1}, {"id": ""}])
def test_a_choice_is_refused(http: httpx.Client, query: dict[str, Any]) -> None:
    new(http)
    response = http.delete("/v1/contexts", params=query)
    assert response.status_code == 400
    assert response.json()["error"]["param"] == next(iter(query))
    assert kinds(http) == ["context"]
