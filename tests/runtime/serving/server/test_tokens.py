"""``/tokenize`` and ``/detokenize``: the tokens that a request would have, and their text."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.runtime import LocalRuntime
from tests.hypothesis_profiles import examples
from tests.runtime.serving.server.conftest import HELLO


def tokenize(http: httpx.Client, **body: Any) -> Any:
    return http.post("/tokenize", json={"model": "nano", **body}).raise_for_status().json()


def test_the_tokens_of_a_text_are_those_of_its_completion(http: httpx.Client, runtime: LocalRuntime) -> None:
    found = tokenize(http, prompt="<|im_start|>Hello!")
    assert found["count"] == len(found["tokens"]) > 2
    assert found["tokens"][0] == runtime._tokenizer._tokenizer.get_vocab()[b"<|im_start|>"]
    assert found["max_model_len"] == runtime.context_length
    assert found["token_strs"] is None
    body = {"prompt": "<|im_start|>Hello!", "max_tokens": 1}
    assert http.post("/v1/completions", json=body).json()["usage"]["prompt_tokens"] == found["count"]


def test_the_tokens_of_messages_are_those_of_a_chat(http: httpx.Client, weather_tool: dict[str, Any]) -> None:
    for more in ({}, {"tools": [weather_tool]}):
        found = tokenize(http, messages=HELLO, add_generation_prompt=True, **more)
        chat = {"messages": HELLO, "max_tokens": 1, **more}
        usage = http.post("/v1/chat/completions", json=chat).json()["usage"]
        assert found["count"] == usage["prompt_tokens"]


@pytest.mark.hypothesis
def test_the_text_of_the_tokens_of_a_text_is_this_text(http: httpx.Client) -> None:
    @given(st.lists(st.sampled_from(["<|im_end|>", "Hello", " ", "\n", "é", "🙂", "日", "<tool_call>"])))
    @examples(30)
    def check(parts: list[str]) -> None:
        text = "x".join(["a", *parts])
        tokens = tokenize(http, prompt=text)["tokens"]
        answer = http.post("/detokenize", json={"tokens": tokens}).raise_for_status().json()
        assert answer == {"prompt": text}

    check()


@pytest.mark.parametrize(
    ("path", "body", "status", "param"),
    [
        ("/tokenize", {}, 400, None),
        ("/tokenize", {"prompt": "x", "messages": HELLO}, 400, None),
        ("/tokenize", {"prompt": ""}, 400, "prompt"),
        ("/tokenize", {"prompt": "word " * 20000}, 400, "prompt"),
        ("/tokenize", {"messages": []}, 400, "messages"),
        ("/tokenize", {"messages": HELLO, "tools": [3]}, 400, "tools[0]"),
        ("/tokenize", {"messages": HELLO, "add_generation_prompt": False}, 400, "add_generation_prompt"),
        ("/tokenize", {"prompt": "x", "model": "none"}, 404, "model"),
        ("/detokenize", {}, 400, "tokens"),
        ("/detokenize", {"tokens": [0, -1]}, 400, "tokens[1]"),
        ("/detokenize", {"tokens": [10**9]}, 400, "tokens[0]"),
        ("/detokenize", {"tokens": [True]}, 400, "tokens[0]"),
        ("/detokenize", {"tokens": [1], "model": "none"}, 404, "model"),
    ],
)
def test_what_is_refused_is_named(
    http: httpx.Client, path: str, body: dict[str, Any], status: int, param: str | None
) -> None:
    response = http.post(path, json=body)
    error = response.json()["error"]
    assert (response.status_code, error["param"]) == (status, param)
    assert error["message"]


def test_no_tokens_have_no_text(http: httpx.Client) -> None:
    assert http.post("/detokenize", json={"tokens": []}).json() == {"prompt": ""}
