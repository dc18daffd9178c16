"""The older completions through the official client: raw prompts, without a chat template."""

from __future__ import annotations

from typing import Any

import httpx
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.errors import InvalidRequestError, PromptTooLongError
from agentrt.runtime import LocalRuntime, RawPrompt
from tests.hypothesis_profiles import examples
from tests.runtime.serving.server.conftest import HELLO

PROMPT = "<|im_start|>user\nHello!<|im_end|>\n<|im_start|>assistant\n"
BODY: dict[str, Any] = {"model": "nano", "prompt": PROMPT, "temperature": 0, "max_tokens": 10}


@pytest.fixture
def tokens(runtime: LocalRuntime) -> list[int]:
    return runtime._tokenizer.encode(PROMPT)


def test_a_prompt_is_continued_as_it_is(client: openai.OpenAI, runtime: LocalRuntime) -> None:
    expected = runtime.generate(RawPrompt("The sky is"), max_tokens=10)
    answer: Any = client.completions.create(**BODY | {"prompt": "The sky is"})
    (choice,) = answer.choices
    assert (answer.object, answer.model, answer.id[:5]) == ("text_completion", "nano", "cmpl-")
    assert (choice.index, choice.text, choice.finish_reason) == (0, expected.text, expected.finish_reason)
    assert answer.usage.prompt_tokens == expected.usage.prompt_tokens == runtime.count_tokens("The sky is")
    assert answer.usage.completion_tokens == expected.usage.completion_tokens


def test_special_tokens_of_a_prompt_are_special_tokens(
    client: openai.OpenAI, runtime: LocalRuntime, tokens: list[int]
) -> None:
    # With nano's own markup the prompt is that of a chat whose system message is empty.
    ids = runtime._tokenizer._tokenizer.get_vocab()
    assert tokens.count(ids[b"<|im_start|>"]) == 2
    by_text, by_tokens = (
        client.completions.create(**BODY | {"prompt": prompt}).choices[0].text for prompt in (PROMPT, tokens)
    )
    assert by_text == by_tokens == runtime.generate(RawPrompt(tokens), max_tokens=10).text


def test_as_many_tokens_as_openai_by_default(http: httpx.Client) -> None:
    body = {"prompt": PROMPT, "ignore_eos": True}
    answer = http.post("/v1/completions", json=body).json()
    assert (answer["usage"]["completion_tokens"], answer["choices"][0]["finish_reason"]) == (16, "length")


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("echo", [False, True])
def test_several_prompts_and_answers(
    client: openai.OpenAI, tokens: list[int], streamed: bool, echo: bool
) -> None:
    options: dict[str, Any] = {"model": "nano", "max_tokens": 6, "temperature": 2, "echo": echo}
    alone = [
        client.completions.create(**options, prompt=prompt, seed=seed).choices[0].text
        for prompt in (PROMPT, "The sky is")
        for seed in (5, 6)
    ]
    assert all(text.startswith(PROMPT) is echo for text in alone[:2])
    for prompts in ([PROMPT, "The sky is"], [tokens, "The sky is"]):
        body = options | {"prompt": prompts, "seed": 5, "n": 2}
        if streamed:
            texts = ["", "", "", ""]
            for chunk in client.completions.create(**body, stream=True):
                texts[chunk.choices[0].index] += chunk.choices[0].text
        else:
            answer = client.completions.create(**body)
            assert [choice.index for choice in answer.choices] == [0, 1, 2, 3]
            texts = [choice.text for choice in answer.choices]
        assert texts == alone


def test_usage_counts_each_prompt_once(client: openai.OpenAI) -> None:
    def usage(**fields: Any) -> Any:
        return client.completions.create(**BODY | fields).usage

    one, other = usage(prompt=PROMPT), usage(prompt="The sky is")
    several = {"prompt": [PROMPT, "The sky is"], "n": 2}
    both = usage(**several)
    assert both.prompt_tokens == one.prompt_tokens + other.prompt_tokens
    assert both.completion_tokens == 2 * (one.completion_tokens + other.completion_tokens)
    assert both.total_tokens == both.prompt_tokens + both.completion_tokens
    streamed = BODY | several | {"stream": True, "stream_options": {"include_usage": True}}
    *chunks, last = client.completions.create(**streamed)
    assert (last.choices, last.usage.total_tokens) == ([], both.total_tokens)
    assert all(chunk.usage is None for chunk in chunks)


@pytest.mark.parametrize("streamed", [False, True])
def test_logprobs(client: openai.OpenAI, streamed: bool) -> None:
    # Characters of several bytes, some of which are several tokens.
    body = BODY | {"prompt": "日本 é ü 🙂 日本 é ü 🙂", "max_tokens": 24, "logprobs": 2}
    body["extra_body"] = {"ignore_eos": True}
    if streamed:
        chunks = [chunk.choices[0] for chunk in client.completions.create(**body, stream=True)]
        text = "".join(chunk.text for chunk in chunks)
        parts = [chunk.logprobs for chunk in chunks if chunk.logprobs is not None]
    else:
        answer: Any = client.completions.create(**body)
        (choice,) = answer.choices
        text, parts = choice.text, [choice.logprobs]
    names = [name for part in parts for name in part.tokens or ()]
    offsets = [offset for part in parts for offset in part.text_offset or ()]
    values = [value for part in parts for value in part.token_logprobs or ()]
    top = [likeliest for part in parts for likeliest in part.top_logprobs or ()]
    assert len(names) == len(offsets) == len(values) == len(top) == 24
    assert all(value is not None and value <= 0 for value in values)
    assert all(len(likeliest) == 2 and name in likeliest for name, likeliest in zip(names, top, strict=True))
    assert offsets == sorted(offsets)
    for name, offset in zip(names, offsets, strict=True):
        assert name.startswith("bytes:\\x") or text[offset : offset + len(name)] == name


def test_values_without_effect_are_taken(http: httpx.Client) -> None:
    plain = http.post("/v1/completions", json=BODY).json()["choices"]
    more = {"suffix": "", "best_of": 1, "echo": False, "user": "me", "logit_bias": {}, "logprobs": None}
    more |= {"top_p": None, "frequency_penalty": None, "stop": ["<|fim_prefix|>", "```"]}
    assert http.post("/v1/completions", json=BODY | more).json()["choices"] == plain


def test_a_raw_prompt_has_no_tools(runtime: LocalRuntime, weather_tool: dict[str, Any]) -> None:
    for options in ({"tools": [weather_tool]}, {"shared_prefix": True}):
        with pytest.raises(InvalidRequestError, match="raw prompt") as refused:
            runtime.generate(RawPrompt("Hi"), **options)
        assert refused.value.field == next(iter(options))
    with pytest.raises(PromptTooLongError) as too_long:
        runtime.generate(RawPrompt("word " * 20000))
    assert too_long.value.field == "prompt"
    with pytest.raises(InvalidRequestError, match="half of a character") as broken:
        runtime.generate(RawPrompt("\ud800"))
    assert broken.value.field == "prompt"


def tokenize(http: httpx.Client, **body: Any) -> Any:
    return http.post("/tokenize", json={"model": "nano", **body}).raise_for_status().json()


def test_the_tokens_of_a_text_are_those_of_its_completion(http: httpx.Client, runtime: LocalRuntime) -> None:
    found = tokenize(http, prompt="<|im_start|>Hello!")
    assert found["count"] == len(found["tokens"]) > 2
    assert found["tokens"][0] == runtime._tokenizer._tokenizer.get_vocab()[b"<|im_start|>"]
    assert found["max_model_len"] == runtime.context_length
    assert found["token_strs"] is None
    assert http.post("/detokenize", json={"tokens": []}).json() == {"prompt": ""}
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
