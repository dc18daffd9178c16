"""ChatOpenAI with its options on `agentrt serve`, over a real socket: it answers as ChatAgentRT does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import openai
import pytest
from langchain_core.callbacks import get_usage_metadata_callback
from langchain_core.exceptions import ContextOverflowError, ModelInvalidRequestError
from langchain_openai import ChatOpenAI
from pydantic import BaseModel, Field

from agentrt.adapters.langchain import ChatAgentRT
from agentrt.runtime import LocalRuntime
from tests.adapters.langchain.chats import HELLO, QUESTION, get_weather, whole
from tests.runtime.serving.http.serving import Running
from tests.runtime.serving.server.conftest import running

ASKED = [QUESTION]


class Place(BaseModel):
    """A place that somebody asks about."""

    city: str = Field(description="its name")


@pytest.fixture(scope="module")
def server(exact_runtime: LocalRuntime) -> Iterator[Running]:
    with running(exact_runtime) as server:
        yield server


@pytest.fixture(scope="module")
def remote(server: Running) -> Iterator[Callable[..., ChatOpenAI]]:
    with closing(openai.DefaultHttpxClient()) as connections:
        base: dict[str, Any] = {"base_url": f"{server.url}/v1", "api_key": "none", "model": "nano"}
        base |= {"max_completion_tokens": 64, "max_retries": 0, "timeout": 60, "http_client": connections}
        yield lambda **fields: ChatOpenAI(**(base | fields))


@pytest.fixture
def local(exact_runtime: LocalRuntime) -> Callable[..., ChatAgentRT]:
    return lambda **fields: ChatAgentRT(runtime=exact_runtime, max_tokens=64, **fields)


Make = Callable[..., Any]


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"stop": ["help"]},
        {"temperature": 1.5, "seed": 7},
        {"temperature": 1.0, "top_p": 0.5, "seed": 7},
        {"logprobs": True, "top_logprobs": 2},
        {"frequency_penalty": 1.0, "presence_penalty": 0.5},
        {"logit_bias": {5: 50}},
    ],
    ids=lambda fields: "-".join(fields),
)
def test_the_same_options_give_the_same_answer(remote: Make, local: Make, fields: dict[str, Any]) -> None:
    there, here = remote(**fields), local(**fields)
    usage = here.invoke(HELLO).usage_metadata
    for answer, own in (
        (there.invoke(HELLO), here.invoke(HELLO)),
        (whole(there.stream(HELLO, stream_usage=True)), whole(here.stream(HELLO))),
    ):
        assert answer.text == own.text
        assert answer.usage_metadata["total_tokens"] == usage["total_tokens"]
        for name in ("model_name", "finish_reason"):
            assert answer.response_metadata[name] == own.response_metadata[name]
        if fields.get("logprobs"):
            found, wanted = (each.response_metadata["logprobs"]["content"] for each in (answer, own))
            assert [each["token"] for each in found] == [each["token"] for each in wanted]
            assert [len(each["top_logprobs"]) for each in found] == [2] * len(wanted)


def test_several_answers(remote: Make, local: Make) -> None:
    fields: dict[str, Any] = {"n": 3, "temperature": 2.0, "seed": 7}
    there, here = remote(**fields), local(**fields)
    (found,), (wanted,) = there.generate([HELLO]).generations, here.generate([HELLO]).generations
    assert [each.text for each in found] == [each.text for each in wanted]
    totals = [[each.message.usage_metadata["total_tokens"] for each in some] for some in (found, wanted)]
    assert totals[0] == totals[1]


def test_usage_callbacks_count_both_under_one_name(remote: Make, local: Make) -> None:
    with get_usage_metadata_callback() as counted:
        answers = [remote().invoke(HELLO), local().invoke(HELLO)]
    totals = sum(answer.usage_metadata["total_tokens"] for answer in answers)
    assert {name: usage["total_tokens"] for name, usage in counted.usage_metadata.items()} == {"nano": totals}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"strict": True},
        {"tool_choice": "any"},
        {"tool_choice": True},
        {"tool_choice": "get_weather"},
        {"tool_choice": "none"},
        {"parallel_tool_calls": False},
    ],
    ids=str,
)
def test_tools_are_bound_alike(remote: Make, local: Make, options: dict[str, Any]) -> None:
    found, wanted = (make().bind_tools([get_weather], **options).invoke(ASKED) for make in (remote, local))
    calls = [[(call["name"], call["args"]) for call in each.tool_calls] for each in (found, wanted)]
    assert calls[0] == calls[1]
    assert bool(found.tool_calls) is (options.get("tool_choice") != "none")
    assert found.text == wanted.text


@pytest.mark.parametrize("method", ["function_calling", "json_schema"])
@pytest.mark.parametrize("include_raw", [False, True])
def test_structured_output_is_alike(remote: Make, local: Make, method: str, include_raw: bool) -> None:
    # ChatOpenAI always asks for a Pydantic class strictly.
    given: dict[str, Any] = {"method": method, "include_raw": include_raw, "strict": True}
    found, wanted = (
        make(stop=["zzz"]).with_structured_output(Place, **given).invoke(ASKED) for make in (remote, local)
    )
    if include_raw:
        assert isinstance(found["parsed"], Place)
        found, wanted = found["parsed"], wanted["parsed"]
    assert found == wanted
    if method == "function_calling":
        assert found == Place(city="Oslo")


def test_errors_have_the_same_classes(remote: Make, local: Make) -> None:
    for make in (remote, local):
        with pytest.raises(ContextOverflowError):
            make().invoke("word " * 100_000)
        with pytest.raises(ModelInvalidRequestError):
            make().invoke(HELLO, temperature=-1)
