"""Requests that match the OpenAPI document and requests that do not cause no server error (schemathesis)."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import given
from schemathesis import GenerationMode

from tests.hypothesis_profiles import examples
from tests.patience import PATIENCE_S
from tests.runtime.serving.http.serving import Running
from tests.runtime.serving.server.conftest import HELLO

OPERATIONS = [
    ("/v1/chat/completions", "POST"),
    ("/v1/completions", "POST"),
    ("/v1/contexts", "DELETE"),
    ("/v1/contexts", "GET"),
    ("/v1/contexts", "POST"),
    ("/v1/contexts/{context_id}", "DELETE"),
    ("/v1/contexts/{context_id}", "GET"),
    ("/v1/contexts/{context_id}/chat/completions", "POST"),
    ("/v1/embeddings", "POST"),
    ("/v1/messages", "POST"),
    ("/v1/messages/count_tokens", "POST"),
    ("/v1/responses", "POST"),
    ("/v1/responses/compact", "POST"),
    ("/v1/responses/{response_id}", "DELETE"),
    ("/v1/responses/{response_id}", "GET"),
    ("/v1/responses/{response_id}/input_items", "GET"),
    ("/api/chat", "POST"),
    ("/api/embed", "POST"),
    ("/api/embeddings", "POST"),
    ("/api/generate", "POST"),
    ("/api/show", "POST"),
    ("/api/tags", "GET"),
    ("/api/version", "GET"),
    ("/tokenize", "POST"),
    ("/detokenize", "POST"),
    ("/v1/cache-tool-output/{response_id}", "POST"),
    ("/v1/models", "GET"),
    ("/v1/models/{model}", "GET"),
    ("/health", "GET"),
    ("/metrics", "GET"),
]

PAGED = [("/v1/contexts", "GET"), ("/v1/responses/{response_id}/input_items", "GET")]


def test_every_operation_is_described(http: httpx.Client) -> None:
    described = http.get("/openapi.json").json()["paths"].items()
    assert {(path, method.upper()) for path, methods in described for method in methods} == set(OPERATIONS)


@pytest.mark.matrix
@pytest.mark.hypothesis
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
@pytest.mark.parametrize("operation", OPERATIONS, ids=" ".join)
def test_no_request_is_a_fault(
    http: httpx.Client, server: Running, operation: tuple[str, str], mode: GenerationMode
) -> None:
    path, method = operation
    if mode is GenerationMode.NEGATIVE and method != "POST" and (path, method) not in PAGED:
        return  # nothing about it can be wrong: any text is a name or an id
    check_operation(http, server, path, method, mode)


def check_operation(
    http: httpx.Client, server: Running, path: str, method: str, mode: GenerationMode, model: str = "nano"
) -> None:
    """Send requests to ``model`` that match the document, or some that do not: none is a fault."""
    document = http.get("/openapi.json").json()
    operation = schemathesis.openapi.from_dict(document)[path][method]

    @given(case=operation.as_strategy(generation_mode=mode))
    @examples(40)
    def check(case: Any) -> None:
        body = case.body
        if isinstance(body, dict) and "model" in body and mode is GenerationMode.POSITIVE:
            # Else hardly any request would come through to the model.
            body |= {"model": model, "max_tokens": 3, "max_output_tokens": 3, "stream": False}
            if "messages" in body:
                body["messages"] = HELLO
        response = case.call(base_url=server.url, timeout=PATIENCE_S)
        assert response.status_code < 500, response.text
        if response.status_code >= 400:
            error = response.json()["error"]
            if path.startswith("/api/") and response.status_code != 413:  # in Ollama's form
                assert isinstance(error, str)
            elif path.startswith("/v1/messages"):  # in Anthropic's
                details = {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}
                assert error.pop("details", details) == details
                assert set(error) == {"type", "message"}
            else:
                assert set(error) == {"message", "type", "param", "code"}

    check()
