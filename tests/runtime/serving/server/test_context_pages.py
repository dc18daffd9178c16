"""``GET /v1/contexts`` page by page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

import httpx
import openai
import pytest
from openai.pagination import SyncCursorPage

from agentrt.runtime import LocalRuntime
from agentrt.runtime.contexts.context import ContextKind
from agentrt.runtime.serving.http.identity import LOCAL_APP
from tests.patience import until
from tests.runtime.serving.http.serving import Running
from tests.runtime.serving.server.conftest import HELLO, running


class Listed(openai.BaseModel):
    id: str


@pytest.fixture
def made(server: Running, runtime: LocalRuntime) -> list[str]:
    """Seven contexts of three kinds, the oldest first."""
    table = runtime.context_table
    for number in range(7):
        kind = list(ContextKind)[number % 3]
        session = str(number) if kind is ContextKind.SESSION else None
        table.create(LOCAL_APP, kind, session=session)
    return [context.id for context in sorted(table.contexts(LOCAL_APP), key=lambda each: each.created)]


def listed(http: httpx.Client, **query: Any) -> dict[str, Any]:
    page: dict[str, Any] = http.get("/v1/contexts", params=query).raise_for_status().json()
    assert [page["first_id"], page["last_id"]] == [each["id"] for each in (page["data"][0], page["data"][-1])]
    return page


def pages(
    http: httpx.Client, between: Callable[[], None] = lambda: None, **query: Any
) -> Iterator[list[str]]:
    page = listed(http, **query)
    while True:
        yield [each["id"] for each in page["data"]]
        if not page["has_more"]:
            return
        between()
        page = listed(http, after=page["last_id"], **query)


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("limit", [1, 3, 6, 7, 100])
def test_every_context_is_on_one_page(http: httpx.Client, made: list[str], order: str, limit: int) -> None:
    found = list(pages(http, order=order, limit=limit))
    assert [len(page) for page in found[:-1]] == [limit] * (len(found) - 1)
    assert list(chain(*found)) == (made if order == "asc" else made[::-1])


def test_what_is_used_and_made_meanwhile_hides_nothing(
    http: httpx.Client, runtime: LocalRuntime, made: list[str]
) -> None:
    oldest = made[0]

    def use() -> None:
        with runtime.context_table.begin_turn(LOCAL_APP, oldest) as turn:
            turn.commit(HELLO, 1)
        runtime.context_table.create(LOCAL_APP)

    found = list(pages(http, use, limit=2))
    assert list(chain(*found)) == made[::-1]


def test_the_official_client_reads_all_pages(client: openai.OpenAI, made: list[str]) -> None:
    found = client.get_api_list(
        "/contexts", model=Listed, page=SyncCursorPage[Listed], options={"params": {"limit": 2}}
    )
    assert [each.id for each in found] == made[::-1]


@pytest.mark.parametrize(
    ("param", "value"), [("limit", "0"), ("limit", "101"), ("order", "created"), ("after", "ctx_1")]
)
def test_a_page_that_cannot_be(http: httpx.Client, made: list[str], param: str, value: str) -> None:
    response = http.get("/v1/contexts", params={param: value})
    assert response.status_code == 400
    assert response.json()["error"]["param"] == param


def test_another_apps_context_is_no_place_to_begin(http: httpx.Client, runtime: LocalRuntime) -> None:
    foreign = runtime.bind("other").new_context().id
    try:
        answers = [http.get("/v1/contexts", params={"after": id}) for id in (foreign, "ctx_" + "0" * 48)]
        assert [answer.status_code for answer in answers] == [400, 400]
        errors = [answer.text.replace(foreign, "ctx_" + "0" * 48) for answer in answers]
        assert errors[0] == errors[1]
    finally:
        runtime.bind("other").delete(foreign)


def test_ten_thousand_contexts(open_runtime: Callable[..., LocalRuntime]) -> None:
    runtime = open_runtime(contexts_per_app=10_000)
    ids = [runtime.context_table.create(LOCAL_APP).id for _ in range(10_000)]
    with running(runtime) as server, httpx.Client(base_url=server.url, timeout=60) as http:
        page = listed(http)
        assert [each["id"] for each in page["data"]] == ids[:-21:-1]
        assert page["has_more"]
        last = listed(http, after=ids[3], limit=100)
        assert [each["id"] for each in last["data"]] == ids[2::-1]
        assert not last["has_more"]


def test_a_session_shows_the_tokens_of_its_last_request(http: httpx.Client) -> None:
    body = {"messages": HELLO, "max_tokens": 2}
    answer = http.post("/v1/chat/completions", json=body, headers={"x-session-id": "thread 7"}).json()
    until(lambda: listed(http)["data"][0]["status"] != "running")
    session = listed(http)["data"][0]
    assert session["tokens"] == answer["usage"]["total_tokens"] > 0
