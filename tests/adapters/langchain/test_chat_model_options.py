"""The options that people know of ChatOpenAI, on the real runtime with the real nano model."""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler, get_usage_metadata_callback
from langchain_core.exceptions import (
    ContextOverflowError,
    ModelInvalidRequestError,
    ModelRateLimitError,
    ModelTimeoutError,
)
from langchain_core.language_models.llms import create_base_retry_decorator
from langchain_core.messages import AIMessage
from langchain_core.runnables import ConfigurableField
from langchain_core.tools import tool
from pydantic import BaseModel, create_model

from agentrt.adapters.langchain import ChatAgentRT
from agentrt.adapters.langchain.chat_model import runtime_answers
from agentrt.errors import (
    ConfigurationError,
    DeadlineExceededError,
    InvalidRequestError,
    OverloadedError,
    PromptTooLongError,
)
from agentrt.runtime import LocalRuntime, RuntimeConfig
from tests.adapters.langchain.chats import HELLO, QUESTION, Ask, get_weather, ways


@ways
def test_usage_is_counted_under_the_models_name(chat: ChatAgentRT, ask: Ask) -> None:
    with get_usage_metadata_callback() as counted:
        first, second = ask(chat, HELLO), ask(chat, HELLO)
    assert first.response_metadata["model_name"] == chat.model_name == "nano"
    tokens = [each.usage_metadata["total_tokens"] for each in (first, second)]
    assert counted.usage_metadata["nano"]["total_tokens"] == sum(tokens) > 0


@pytest.mark.parametrize("asynchronous", [False, True])
def test_several_answers_to_one_prompt(chat: ChatAgentRT, asynchronous: bool) -> None:
    chat.max_tokens = 8
    sampled = chat.model_copy(update={"n": 3, "temperature": 5.0, "seed": 7})
    result = asyncio.run(sampled.agenerate([HELLO])) if asynchronous else sampled.generate([HELLO])
    (generations,) = result.generations
    alone = [chat.bind(temperature=5.0, seed=7 + index).invoke(HELLO) for index in range(3)]
    assert [each.text for each in generations] == [each.text for each in alone]
    assert len({each.text for each in generations}) > 1
    usages = [each.usage_metadata for each in alone]
    asked, answered = usages[0]["input_tokens"], sum(usage["output_tokens"] for usage in usages)
    for generation in generations:
        usage = generation.message.usage_metadata
        assert (usage["input_tokens"], usage["output_tokens"]) == (asked, answered)
    totals = {"prompt_tokens": asked, "completion_tokens": answered, "total_tokens": asked + answered}
    assert result.llm_output == {"token_usage": totals, "model_name": "nano"}


def test_several_answers_are_not_streamed(chat: ChatAgentRT) -> None:
    with pytest.raises(InvalidRequestError, match="cannot be told apart"):
        list(chat.stream(HELLO, n=2))
    with pytest.raises(InvalidRequestError, match="tool_cache"):
        chat.model_copy(update={"tool_cache": True}).generate([HELLO], n=2)
    with pytest.raises(InvalidRequestError, match="at least 1"):
        chat.invoke(HELLO, n=0)

    streaming = ChatAgentRT(runtime=chat.runtime, max_tokens=8, streaming=True)
    assert len(streaming.generate([HELLO], n=2).generations[0]) == 2


@ways
def test_log_probabilities(chat: ChatAgentRT, ask: Ask) -> None:
    answer = ask(chat, HELLO, logprobs=True, top_logprobs=2)
    tokens = answer.response_metadata["logprobs"]["content"]
    assert len(tokens) == answer.usage_metadata["output_tokens"]
    assert "".join(token["token"] for token in tokens).startswith(answer.text)
    for token in tokens:
        assert len(token["top_logprobs"]) == 2
        assert 0 <= math.exp(token["logprob"]) <= 1.0001
    assert "logprobs" not in ask(chat, HELLO).response_metadata
    with pytest.raises(InvalidRequestError, match="logprobs=True"):
        ask(chat, HELLO, top_logprobs=2)
    with pytest.raises(InvalidRequestError, match="top_logprobs"):
        ask(chat, HELLO, logprobs=3)


@ways
def test_stop_texts_of_the_model_and_of_the_request(chat: ChatAgentRT, ask: Ask) -> None:
    text = ask(chat, HELLO).text
    first, second = text[3:5], text[5:7]
    stopping = chat.model_copy(update={"stop": first})
    assert ask(stopping, HELLO).text == text[:3]
    assert ask(stopping, HELLO, stop=[second]).text == text[: text.index(second)]
    assert ask(stopping, HELLO, stop=[]).text == text


@ways
def test_a_timeout_ends_the_request(chat: ChatAgentRT, ask: Ask) -> None:
    with pytest.raises(DeadlineExceededError) as caught:
        ask(chat, HELLO, timeout=1e-9)
    assert isinstance(caught.value, TimeoutError)
    assert isinstance(caught.value, ModelTimeoutError)
    with pytest.raises(DeadlineExceededError):
        ask(chat.model_copy(update={"timeout": 1e-9}), HELLO)
    assert ask(chat, HELLO, timeout=600).text


class Crowded:
    """A runtime that refuses some requests because too many wait."""

    def __init__(self, runtime: LocalRuntime, refusals: int) -> None:
        self._runtime = runtime
        self.refusals = refusals
        self.asked = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runtime, name)

    def _ask(self) -> None:
        self.asked += 1
        if self.asked <= self.refusals:
            raise OverloadedError("too many requests wait. Try again later.")

    def generate(self, *args: Any, **options: Any) -> Any:
        self._ask()
        return self._runtime.generate(*args, **options)

    def iter_stream(self, *args: Any, **options: Any) -> Iterator[Any]:
        self._ask()
        yield from self._runtime.iter_stream(*args, **options)

    async def agenerate(self, *args: Any, **options: Any) -> Any:
        self._ask()
        return await self._runtime.agenerate(*args, **options)

    async def start(self, *args: Any, **options: Any) -> Any:
        self._ask()
        return await self._runtime.start(*args, **options)


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits between retries, which take no time."""
    seconds: list[float] = []

    async def pass_async(wait: float) -> None:
        seconds.append(wait)

    def without_waits(*args: Any, **options: Any) -> Callable[[Any], Any]:
        decorate = create_base_retry_decorator(*args, **options)

        def decorated(call: Any) -> Any:
            retried = decorate(call)
            retried.retry.sleep = pass_async if inspect.iscoroutinefunction(call) else seconds.append
            return retried

        return decorated

    monkeypatch.setattr(runtime_answers, "create_base_retry_decorator", without_waits)
    return seconds


class Seen(BaseCallbackHandler):
    """Counts retries, and tokens of streams."""

    retries = tokens = 0

    def on_retry(self, *args: Any, **kwargs: Any) -> None:
        self.retries += 1

    def on_llm_new_token(self, *args: Any, **kwargs: Any) -> None:
        self.tokens += 1


@ways
@pytest.mark.parametrize(("refusals", "more", "asked"), [(2, {}, 3), (3, {}, 3), (1, {"max_retries": 0}, 1)])
def test_what_is_refused_is_sent_again(
    exact_runtime: LocalRuntime, waits: list[float], ask: Ask, refusals: int, more: Any, asked: int
) -> None:
    crowded = Crowded(exact_runtime, refusals)
    model = ChatAgentRT(runtime=crowded, max_tokens=8, **more)
    if refusals < asked:
        usual = ask(ChatAgentRT(runtime=exact_runtime, max_tokens=8), HELLO)
        assert ask(model, HELLO).text == usual.text
    else:
        with pytest.raises(OverloadedError) as caught:
            ask(model, HELLO)
        assert isinstance(caught.value, ModelRateLimitError)
        assert caught.value.is_retryable
    assert (crowded.asked, len(waits)) == (asked, asked - 1)


def test_callbacks_see_retries(exact_runtime: LocalRuntime, waits: list[float]) -> None:
    model = ChatAgentRT(runtime=Crowded(exact_runtime, refusals=2), max_tokens=8)
    model.invoke(HELLO, {"callbacks": [seen := Seen()]})
    assert seen.retries == 2


@ways
def test_errors_are_langchains_too(chat: ChatAgentRT, ask: Ask) -> None:
    with pytest.raises(PromptTooLongError) as too_long:
        ask(chat, "word " * 100_000)
    assert isinstance(too_long.value, ContextOverflowError)
    assert too_long.value.limit_tokens < too_long.value.prompt_tokens
    with pytest.raises(InvalidRequestError) as invalid:
        ask(chat, HELLO, temperature=-1)
    assert invalid.value.field == "temperature"
    assert isinstance(invalid.value, ModelInvalidRequestError)
    assert not invalid.value.is_retryable


@ways
def test_usage_of_a_stream_can_be_left_out(chat: ChatAgentRT, ask: Ask) -> None:
    streamed = "chunk" in type(ask(chat, HELLO)).__name__.lower()
    for answer in (
        ask(chat, HELLO, stream_usage=False),
        ask(chat.model_copy(update={"stream_usage": False}), HELLO),
    ):
        assert (answer.usage_metadata is None) is streamed


def test_streaming_can_be_turned_on_and_off(chat: ChatAgentRT) -> None:
    def pieces(model: ChatAgentRT) -> int:
        model.invoke(HELLO, {"callbacks": [seen := Seen()]})
        return seen.tokens

    assert pieces(chat) == 0
    assert pieces(ChatAgentRT(runtime=chat.runtime, max_tokens=64, streaming=True)) > 1
    whole_only = chat.model_copy(update={"disable_streaming": True})
    assert len(list(whole_only.stream(HELLO))) == 1
    assert chat.invoke(HELLO, stream=True).text == chat.invoke(HELLO, stream=False).text


UNKNOWN_OR_WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "top_p": ({"top_p": 2}, "top_p"),
    "stop": ({"stop": [""]}, "stop"),
    "bias": ({"logit_bias": {1: 1000}}, "logit_bias"),
    "max_retries": ({"max_retries": -1}, "max_retries"),
    "misspelled": ({"temprature": 1}, "temprature"),
    "api_key": ({"api_key": "key"}, "api_key.*ChatOpenAI"),
    "model_kwargs": ({"model_kwargs": {"top_k": 3}}, "model_kwargs.*by its name"),
    "priority": ({"priority": "proactive"}, r"give Priority\.REACTIVE or Priority\.PROACTIVE"),
}


@pytest.mark.parametrize(("fields", "message"), UNKNOWN_OR_WRONG.values(), ids=UNKNOWN_OR_WRONG)
def test_wrong_arguments_are_refused_before_the_model_is_opened(
    fields: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LocalRuntime, "open", lambda *args, **options: pytest.fail("it was opened"))
    with pytest.raises(ConfigurationError, match=message):
        ChatAgentRT(model="nano", **fields)


WRONG: list[dict[str, Any]] = [
    *({"timeout": "5"}, {"timeout": 0}, {"temperature": "0.5"}, {"temperature": -1}),
    *({"max_tokens": "5"}, {"max_tokens": 0}, {"seed": "7"}, {"seed": -1}, {"n": "2"}, {"n": 0}),
    *({"top_logprobs": "2", "logprobs": True}, {"top_logprobs": 3}),
    *({"logit_bias": {"five": 1}}, {"logit_bias": {5: "1"}}, {"priority": "proactive"}),
    *({"max_completion_tokens": 3}, {"stop_sequences": ["x"]}),
]


@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_what_a_request_refuses_the_constructor_refuses_by_the_same_name(
    exact_runtime: LocalRuntime, wrong: dict[str, Any]
) -> None:
    (name, *_) = wrong
    if name == "max_completion_tokens":
        name = "ChatAgentRT has no max_completion_tokens. Use max_tokens."
    with pytest.raises(ConfigurationError, match=name):
        ChatAgentRT(runtime=exact_runtime, **wrong)
    with pytest.raises(InvalidRequestError, match=name):
        ChatAgentRT(runtime=exact_runtime, max_tokens=2).invoke("Hello!", **wrong)


def test_an_answer_has_an_end_by_default(chat: ChatAgentRT) -> None:
    assert ChatAgentRT(runtime=chat.runtime).max_tokens == 4096
    assert ChatAgentRT(runtime=chat.runtime, max_tokens=None).invoke(HELLO).text


def test_every_argument_is_in_the_key_of_a_cached_answer(chat: ChatAgentRT) -> None:
    """What LangChain's cache returns was generated from the same prompt by the same settings."""

    def schema(kind: type) -> type[BaseModel]:
        return create_model("Answer", text=(kind, ...))

    changed: dict[str, Any] = {
        **{"app": "mail", "max_tokens": 7, "temperature": 0.5, "top_p": 0.5, "top_k": 3, "min_p": 0.1},
        **{"repetition_penalty": 1.1, "frequency_penalty": 0.5, "presence_penalty": 0.5, "seed": 3},
        **{"stop": ["x"], "logit_bias": {3: 1.0}, "logprobs": True, "n": 2, "timeout": 9.0},
        **{"max_retries": 5, "tool_cache": True},
    }
    key = chat._get_llm_string
    keys = [key(), chat.model_copy(update={"output_version": "v1"})._get_llm_string()]
    keys += [chat.model_copy(update={name: value})._get_llm_string() for name, value in changed.items()]
    keys += [key(**{name: value}) for name, value in changed.items()]
    keys += [key(response_format=schema(kind)) for kind in (str, int)]
    assert len(set(keys)) == len(keys)
    assert key(response_format=schema(str)) == key(response_format=schema(str))
    assert chat.model_copy()._get_llm_string() == keys[0]


def test_traces_name_the_model(chat: ChatAgentRT) -> None:
    assert chat.model_copy(update={"stop": "END", "temperature": 0.5})._get_ls_params() == {
        **{"ls_provider": "agentrt", "ls_model_name": "nano", "ls_model_type": "chat"},
        **{"ls_temperature": 0.5, "ls_max_tokens": 64, "ls_stop": ["END"]},
    }
    assert chat._get_ls_params(stop=["x"], max_tokens=3)["ls_max_tokens"] == 3
    mine: Any = type("Mine", (ChatAgentRT,), {})
    assert mine(runtime=chat.runtime)._get_ls_params()["ls_provider"] == "agentrt"


def test_fields_can_be_configured_per_run(chat: ChatAgentRT) -> None:
    configurable = chat.configurable_fields(max_tokens=ConfigurableField(id="length"))
    answer = configurable.with_config(configurable={"length": 2}).invoke(HELLO)
    assert answer.usage_metadata["output_tokens"] == 2


@ways
def test_the_model_may_be_named_but_not_changed(chat: ChatAgentRT, ask: Ask) -> None:
    assert ask(chat, HELLO, model="nano").text == ask(chat, HELLO).text
    assert chat._get_ls_params(model="other")["ls_model_name"] == "other"
    with pytest.raises(InvalidRequestError, match="Make a ChatAgentRT"):
        ask(chat, HELLO, model="other")


@ways
def test_strict_tools(chat: ChatAgentRT, ask: Ask) -> None:
    loose = chat.bind_tools([get_weather], tool_choice="any")
    strict = chat.bind_tools([get_weather], tool_choice="any", strict=True)
    assert strict.kwargs["tools"][0]["function"]["parameters"]["additionalProperties"] is False
    calls = [ask(model, [QUESTION]).tool_calls for model in (loose, strict)]
    assert [call["args"] for (call,) in calls] == [{"city": "Oslo"}] * 2


def test_strict_tools_need_a_grammar(chat: ChatAgentRT) -> None:
    class Free:
        """A runtime that leaves calls to the model."""

        model_id, context_length, call_format = "free", 8, None
        config = RuntimeConfig(constrain_tool_calls=False)

    free = ChatAgentRT(runtime=Free())
    with pytest.raises(ConfigurationError, match="constrain_tool_calls"):
        free.bind_tools([get_weather], strict=True)
    assert free.bind_tools([get_weather], strict=False).kwargs["tools"]


@ways
def test_parallel_tool_calls(chat: ChatAgentRT, ask: Ask) -> None:
    question = "What is the weather in Oslo and Rome?"
    counts = {
        parallel: len(ask(chat.bind_tools([get_weather], parallel_tool_calls=parallel), question).tool_calls)
        for parallel in (None, True, False)
    }
    assert counts == {None: 2, True: 2, False: 1}


def test_the_model_is_not_shown_that_tools_are_strict(chat: ChatAgentRT) -> None:
    loose, strict = (
        {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}, **more}}
        for more in ({}, {"strict": True})
    )
    count = chat.get_num_tokens_from_messages
    assert count(HELLO, [strict]) == count(HELLO, [loose]) > count(HELLO)


def test_a_tool_may_be_called_like_a_word_of_openai(chat: ChatAgentRT) -> None:
    @tool("none")
    def nothing(text: str) -> str:
        """Do nothing."""
        return ""

    answer = chat.bind_tools([nothing, get_weather], tool_choice="none").invoke("Hello!")
    assert [call["name"] for call in answer.tool_calls] == ["none"]


def test_what_langchain_passes_on_is_not_refused(chat: ChatAgentRT) -> None:
    assert isinstance(chat.invoke(HELLO, tools=None, tool_choice=None, response_format=None), AIMessage)


def test_tokens_of_a_bias_may_be_text_as_in_json(chat: ChatAgentRT) -> None:
    wanted = chat.invoke(HELLO, logit_bias={5: 100.0}, max_tokens=4).text
    assert chat.invoke(HELLO, logit_bias={"5": 100.0}, max_tokens=4).text == wanted
    biased = ChatAgentRT(runtime=chat.runtime, max_tokens=4, logit_bias={"5": 100.0})
    assert biased.invoke(HELLO).text == wanted
