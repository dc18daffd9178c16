"""LangChain's own tests of chat models, on the real runtime with the real nano model.

The pytest plugins of ``langchain-tests`` are off (``addopts`` in ``pyproject.toml``). This module has
those of their fixtures that the tests take.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_tests.integration_tests import ChatModelIntegrationTests
from langchain_tests.unit_tests import ChatModelUnitTests

from agentrt.adapters.langchain import ChatAgentRT
from tests.adapters.langchain.chats import whole

BEYOND_NANO = {
    "test_json_mode",
    "test_structured_output",
    "test_structured_output_async",
    "test_structured_output_pydantic_2_v1",
    "test_unicode_tool_call_integration",
}
"""Tests of what a model knows."""

pytestmark = [pytest.mark.real_model, pytest.mark.anyio]


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module", autouse=True)
def _open_once() -> Iterator[None]:
    """All chat models of the module share the runtime of this one."""
    opened = ChatAgentRT(model="nano")
    yield
    opened.runtime.close()


@pytest.fixture
def benchmark() -> Callable[[Callable[[], Any]], Any]:
    return lambda function: function()


@pytest.fixture
def vcr() -> None:
    """Recorded HTTP requests, of which a model in this process sends none."""


class Snapshot(dict[str, Any]):
    """The one stored value."""

    def __call__(self, name: str) -> Any:
        return self[name]


@pytest.fixture
def snapshot() -> Snapshot:
    given = {"model": "nano", "max_tokens": 100, "timeout": 60.0, "stop": [], "max_retries": 2}
    defaults = {"n": 1, "repetition_penalty": 1.0, "stream_usage": True, "top_p": 1.0}
    return Snapshot(
        serialized={
            "lc": 1,
            "type": "constructor",
            "id": ["agentrt", "adapters", "langchain", "ChatAgentRT"],
            "kwargs": given | defaults,
            "name": "ChatAgentRT",
        }
    )


class _OfNano:
    """What both groups of tests say about the model."""

    @property
    def chat_model_class(self) -> type[ChatAgentRT]:
        return ChatAgentRT

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {"model": "nano"}


class TestUnit(_OfNano, ChatModelUnitTests):
    """LangChain's tests that need no answer."""

    @property
    def standard_chat_model_params(self) -> dict[str, Any]:
        given = super().standard_chat_model_params
        del given["api_key"]  # a model in this process has none
        return given

    @pytest.fixture(autouse=True)
    def _without_the_closed_list(self, request: pytest.FixtureRequest) -> None:
        if request.node.originalname == "test_serdes":
            reason = "it loads classes of LangChain's own list only; test_serialization names the class"
            request.applymarker(pytest.mark.xfail(reason=reason, raises=ValueError))

    @property
    def init_from_env_params(self) -> tuple[dict[str, str], dict[str, Any], dict[str, Any]]:
        return {"LC_OUTPUT_VERSION": "v1"}, {"model": "nano"}, {"output_version": "v1"}


class TestIntegration(_OfNano, ChatModelIntegrationTests):
    """LangChain's tests of answers."""

    @property
    def supports_json_mode(self) -> bool:
        return True

    @property
    def supports_anthropic_inputs(self) -> bool:
        return True

    @property
    def supported_usage_metadata_details(self) -> Any:
        return {"invoke": ["cache_read_input"], "stream": ["cache_read_input"]}

    def invoke_with_cache_read_input(self, *, stream: bool = False) -> AIMessage:
        chat, prompt = ChatAgentRT(model="nano", max_tokens=2), "What is the weather in Oslo? " * 8
        chat.invoke(prompt)
        answer = whole(chat.stream(prompt)) if stream else chat.invoke(prompt)
        assert answer.usage_metadata["input_token_details"]["cache_read"] > 0
        return answer

    @pytest.fixture(autouse=True)
    def _without_what_nano_cannot(self, request: pytest.FixtureRequest) -> None:
        if request.node.originalname in BEYOND_NANO:
            reason = "nano knows no jokes and no Chinese, and does not find the end of such a text"
            # Nor are they run: each is an answer of the greatest length, and whether it passes says nothing.
            request.applymarker(pytest.mark.xfail(reason=reason, run=False))
