"""Whatever fits the OpenAPI document, or does not, is answered, and never by a fault (schemathesis)."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import settings

from tests.runtime.server.conftest import HELLO, Running


@pytest.fixture
def api(server: Running) -> Any:
    document = httpx.get(f"{server.url}/openapi.json").json()
    return schemathesis.openapi.from_dict(document)


schema = schemathesis.pytest.from_fixture("api")


@schema.parametrize()
@settings(max_examples=40)
def test_no_request_is_a_fault(case: Any, server: Running) -> None:
    body = case.body
    if isinstance(body, dict) and body.get("messages"):
        # Else hardly any request would come through to the model.
        body["messages"] = body["messages"] if len(body["messages"]) % 2 else HELLO
    if isinstance(body, dict) and "model" in body:
        body |= {"model": "nano", "max_tokens": 3, "max_output_tokens": 3, "stream": False}
    response = case.call(base_url=server.url)
    assert response.status_code < 500, response.text
    if response.status_code >= 400:
        assert set(response.json()["error"]) == {"message", "type", "param", "code"}
