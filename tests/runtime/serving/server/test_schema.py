"""Requests that match the OpenAPI document and requests that do not cause no server error (schemathesis)."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import given
from schemathesis import GenerationMode

from tests.documented_errors import is_error_of_messages
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
    ("/api/ps", "GET"),
    ("/api/pull", "POST"),
    ("/api/show", "POST"),
    ("/api/tags", "GET"),
    ("/api/version", "GET"),
    ("/v1/responses", "GET"),
    ("/v1/responses/{response_id}/cancel", "POST"),
    ("/tokenize", "POST"),
    ("/detokenize", "POST"),
    ("/v1/cache-tool-output/{response_id}", "POST"),
    ("/v1/models", "GET"),
    ("/v1/models/{model}", "GET"),
    ("/health", "GET"),
    ("/metrics", "GET"),
]

QUERIED = [
    ("/v1/responses/{response_id}", "GET"),
    ("/v1/contexts", "GET"),
    ("/v1/responses", "GET"),
    ("/v1/responses/{response_id}/input_items", "GET"),
]


def without_input(path: str, method: str) -> bool:
    """Whether nothing of a request but its path can be wrong."""
    return path.endswith("/cancel") or (method != "POST" and (path, method) not in QUERIED)


def test_every_operation_is_described_at_its_listener(server: Running) -> None:
    for url, is_ollamas in ((server.url, False), (server.ollama_url, True)):
        described = httpx.get(f"{url}/openapi.json").json()["paths"].items()
        operations = {each for each in OPERATIONS if each[0].startswith("/api/") is is_ollamas}
        assert {(path, method.upper()) for path, methods in described for method in methods} == operations


@pytest.mark.matrix
@pytest.mark.hypothesis
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
@pytest.mark.parametrize("operation", OPERATIONS, ids=" ".join)
def test_no_request_is_a_fault(server: Running, operation: tuple[str, str], mode: GenerationMode) -> None:
    path, method = operation
    if mode is GenerationMode.NEGATIVE and without_input(path, method):
        return  # nothing about it can be wrong: any text is a name or an id
    check_operation(server, path, method, mode)


def check_operation(
    server: Running, path: str, method: str, mode: GenerationMode, model: str = "nano"
) -> None:
    """Send requests to ``model`` that match the document, or some that do not: none is a fault."""
    url = server.url_of(path).removesuffix(path)
    document = httpx.get(f"{url}/openapi.json").json()
    operation = schemathesis.openapi.from_dict(document)[path][method]

    @given(case=operation.as_strategy(generation_mode=mode))
    @examples(40)
    def check(case: Any) -> None:
        sent = case.body
        if isinstance(sent, dict) and "model" in sent and mode is GenerationMode.POSITIVE:
            # Else hardly any request would come through to the model.
            sent |= {"model": model, "max_tokens": 3, "max_output_tokens": 3, "stream": False}
            if "messages" in sent:
                sent["messages"] = HELLO
        response = case.call(base_url=url, timeout=PATIENCE_S)
        assert response.status_code < 500, response.text
        if response.status_code >= 400:
            body = response.json()
            error = body["error"]
            if path.startswith("/api/") and response.status_code != 413:  # in Ollama's form
                assert isinstance(error, str)
            elif path.startswith("/v1/messages"):  # in Anthropic's
                assert is_error_of_messages(body), body
            else:
                assert set(error) == {"message", "type", "param", "code"}

    check()
