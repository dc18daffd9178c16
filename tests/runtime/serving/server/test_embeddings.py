"""``/v1/embeddings`` through the official client and on the wire."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st
from schemathesis import GenerationMode

from agentrt.errors import ConfigurationError, InvalidRequestError
from agentrt.runtime import EmbeddingModel, LocalRuntime
from agentrt.runtime.serving.server import ServerConfig, create_app
from tests.hypothesis_profiles import examples
from tests.runtime.pool.conftest import bert, bert_folder
from tests.runtime.pool.tiny_bert import write_tiny_bert
from tests.runtime.serving.http.serving import Running, until
from tests.runtime.serving.server.conftest import HELLO, client_of, running
from tests.runtime.serving.server.test_schema import check_operation
from tests.runtime.serving.server.test_shares import send

__all__ = ["bert", "bert_folder"]

TEXTS = ["The weather in Oslo", "cat"]


@pytest.fixture
def embedding_server(runtime: LocalRuntime, bert: EmbeddingModel) -> Iterator[Running]:
    with running(runtime, bert) as server:
        yield server


@pytest.fixture
def embedder(embedding_server: Running) -> Iterator[httpx.Client]:
    with client_of(embedding_server) as client:
        yield client


def test_the_official_client(embedding_server: Running, bert: EmbeddingModel) -> None:
    expected = asyncio.run(bert.aembed(TEXTS))
    url = f"{embedding_server.url}/v1"
    with openai.OpenAI(base_url=url, api_key="none", max_retries=0) as client:  # asks for base64
        found = client.embeddings.create(model="tiny-bert", input=TEXTS)
        plain = client.embeddings.create(model="tiny-bert", input=TEXTS, encoding_format="float")
        (alone,) = client.embeddings.create(model="tiny-bert", input=TEXTS[0]).data
    assert [each.index for each in found.data] == [0, 1]
    for answer in (found, plain):
        for each, vector in zip(answer.data, expected.vectors, strict=True):
            np.testing.assert_array_equal(np.float32(each.embedding), vector)
    np.testing.assert_allclose(alone.embedding, expected.vectors[0], atol=1e-4)
    assert (found.object, found.model) == ("list", "tiny-bert")
    assert found.usage.prompt_tokens == found.usage.total_tokens == expected.tokens


@pytest.mark.parametrize(
    ("change", "status", "param", "code"),
    [
        ({"model": "nano"}, 404, "model", "model_not_found"),
        ({"input": []}, 400, "input", "invalid_value"),
        ({"input": ""}, 400, "input", "invalid_value"),
        ({"input": ["cat", ""]}, 400, "input[1]", "invalid_value"),
        ({"input": [1, 2]}, 400, "input[0]", "invalid_value"),
        ({"input": [[1, 2]]}, 400, "input[0]", "invalid_value"),
        ({"input": ["cat"] * 2049}, 400, "input", "invalid_value"),
        ({"input": None}, 400, "input", "invalid_type"),
        ({"input": "cat " * 40}, 400, "input", "invalid_value"),
        ({"input": ["cat", "cat " * 40]}, 400, "input[1]", "invalid_value"),
        ({"encoding_format": "hex"}, 400, "encoding_format", "invalid_type"),
        ({"dimensions": 8}, 400, "dimensions", "invalid_value"),
        ({"dimensions": 0}, 400, "dimensions", "invalid_type"),
    ],
)
def test_what_is_refused_is_named(
    embedder: httpx.Client, change: dict[str, Any], status: int, param: str, code: str
) -> None:
    response = embedder.post("/v1/embeddings", json={"model": "tiny-bert", "input": "cat"} | change)
    error = response.json()["error"]
    assert (response.status_code, error["param"], error["code"]) == (status, param, code)


@pytest.mark.parametrize("name", ["tiny-bert", "tiny-bert:latest"])
def test_ollamas_form(embedder: httpx.Client, bert: EmbeddingModel, name: str) -> None:
    expected = asyncio.run(bert.aembed(TEXTS))
    several = embedder.post("/api/embed", json={"model": name, "input": TEXTS, "keep_alive": "5m"}).json()
    assert (several["model"], several["prompt_eval_count"]) == (name, expected.tokens)
    assert several["total_duration"] > several["load_duration"] == 0
    for numbers, vector in zip(several["embeddings"], expected.vectors, strict=True):
        np.testing.assert_array_equal(np.float32(numbers), vector)
    (one,) = embedder.post("/api/embed", json={"model": name, "input": TEXTS[0]}).json()["embeddings"]
    older = embedder.post("/api/embeddings", json={"model": name, "prompt": TEXTS[0]}).json()
    assert older == {"embedding": one}
    np.testing.assert_allclose(one, expected.vectors[0], atol=1e-4)
    shown = embedder.post("/api/show", json={"model": name}).json()
    assert (shown["capabilities"], shown["model_info"]["agentrt.context_length"]) == (["embedding"], 32)
    assert [each["name"] for each in embedder.get("/api/tags").json()["models"]] == ["nano", "tiny-bert"]


@pytest.mark.parametrize(
    ("path", "body", "status", "says"),
    [
        ("embed", {"model": "nano", "input": "cat"}, 404, "makes no embeddings here. Use 'tiny-bert'"),
        ("embeddings", {"model": "nano", "prompt": "cat"}, 404, "makes no embeddings here"),
        ("embed", {"input": "cat"}, 400, "model: "),
        ("embed", {"model": "tiny-bert", "input": ["cat", ""]}, 400, "input[1]: is empty"),
        ("embed", {"model": "tiny-bert", "input": "cat " * 40}, 400, "input: it has 42 tokens"),
        ("embed", {"model": "tiny-bert", "input": "cat", "dimensions": 8}, 400, "dimensions: "),
        ("embeddings", {"model": "tiny-bert", "prompt": ""}, 400, "prompt: is empty"),
        ("embeddings", {"model": "tiny-bert", "prompt": "cat " * 40}, 400, "prompt: it has 42 tokens"),
        ("embeddings", {"model": "tiny-bert", "prompt": ["cat"]}, 400, "prompt: "),
    ],
)
def test_errors_in_ollamas_form(
    embedder: httpx.Client, path: str, body: dict[str, Any], status: int, says: str
) -> None:
    response = embedder.post(f"/api/{path}", json=body)
    assert response.status_code == status, response.text
    assert says in response.json()["error"]


def test_a_server_without_an_embedding_model_says_how_to_have_one(http: httpx.Client) -> None:
    for body in ({"input": "cat"}, {"model": "nano", "input": "cat"}):
        response = http.post("/v1/embeddings", json=body)
        assert (response.status_code, response.json()["error"]["code"]) == (404, "model_not_found")
        assert "--embedding-model" in response.json()["error"]["message"]
    ollama = http.post("/api/embed", json={"model": "nano", "input": "cat"})
    assert ollama.status_code == 404
    assert "--embedding-model" in ollama.json()["error"]


def test_the_model_is_listed_and_does_not_chat(embedder: httpx.Client) -> None:
    nano, bert = embedder.get("/v1/models").json()["data"]
    assert (nano["id"], bert["id"]) == ("nano", "tiny-bert")
    assert (bert["capabilities"], bert["max_model_len"], bert["status"]) == (["embeddings"], 32, "loaded")
    assert embedder.get("/v1/models/tiny-bert").json() == bert
    body = {"input": "cat", "priority": 1, "user": "me", "input_type": "query"}
    assert embedder.post("/v1/embeddings", json=body).headers["x-agentrt-priority"] == "proactive"
    chat = embedder.post("/v1/chat/completions", json={"model": "tiny-bert", "messages": HELLO})
    assert chat.json()["error"]["code"] == "model_not_found"


@pytest.mark.matrix
@pytest.mark.hypothesis
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
@pytest.mark.parametrize("path", ["/v1/embeddings", "/api/embed", "/api/embeddings"])
def test_no_request_is_a_fault(embedding_server: Running, path: str, mode: GenerationMode) -> None:
    check_operation(embedding_server, path, "POST", mode, "tiny-bert")


@pytest.mark.hypothesis
@given(texts=st.lists(st.text(min_size=1, max_size=200), min_size=1, max_size=4))
@examples(60)
def test_any_text_has_a_vector_or_is_too_long(bert: EmbeddingModel, texts: list[str]) -> None:
    with suppress(InvalidRequestError):
        for vector in asyncio.run(bert.aembed(texts)).vectors:
            assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-4)


def test_requests_count_and_end_with_their_clients(
    runtime: LocalRuntime, bert: EmbeddingModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go = threading.Event(), threading.Event()
    batches: list[int] = []
    run = bert._embed

    def held(texts: Sequence[str], _: Any) -> Any:
        batches.append(len(texts))
        begun.set()
        assert go.wait(30)
        return run(texts)

    monkeypatch.setattr(bert, "_embed", held)
    with running(runtime, bert, max_requests=1) as server:
        url = f"{server.url}/v1/embeddings"
        gone = send(server, {"input": ["cat"] * 96}, {}, "/v1/embeddings")
        assert begun.wait(30)
        gone.close()
        until(lambda: server.admission.active == 0)
        with ThreadPoolExecutor(1) as pool:
            first = pool.submit(httpx.post, url, json={"input": "cat"}, timeout=30)
            until(lambda: server.admission.active == 1)
            second = httpx.post(url, json={"input": "dog"}, timeout=30)
            assert (second.status_code, second.json()["error"]["code"]) == (429, "rate_limit_exceeded")
            go.set()
            assert first.result().status_code == 200
    assert batches == [32, 1], "the batch in progress of the client that has gone, and the other client's"


def test_two_models_of_one_name_are_refused(runtime: LocalRuntime, tmp_path: Path) -> None:
    same = EmbeddingModel.open(write_tiny_bert(tmp_path / "nano"))
    with pytest.raises(ConfigurationError, match="served-model-name"):
        create_app(runtime, ServerConfig(), same)
