import json
from random import Random
from typing import Any

import openvino_genai
import pytest

from agentrt.runtime.nano import DRAFT_DIRECTORY, MODEL_DIRECTORY
from training.nano.dialogues import Author
from training.nano.markup import MARKUP_TOKENS, segments
from training.nano.turns import Dialogue, Mix


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return openvino_genai.Tokenizer(str(MODEL_DIRECTORY))


def messages_of(dialogue: Dialogue, *, arguments_as_text: bool) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "system", "content": dialogue.system}]
    for turn in dialogue.turns:
        messages.append({"role": "user", "content": turn.request})
        for steps in turn.messages:
            calls, results = [], []
            for step in steps:
                arguments: Any = dict(step.arguments)
                if arguments_as_text:
                    arguments = json.dumps(arguments, ensure_ascii=False)
                function = {"name": step.name, "arguments": arguments}
                calls.append({"id": "call_1", "type": "function", "function": function})
                results.append({"role": "tool", "tool_call_id": "call_1", "content": step.result})
            messages += [{"role": "assistant", "content": "", "tool_calls": calls}, *results]
        messages.append({"role": "assistant", "content": turn.answer})
    return messages


@pytest.mark.parametrize("arguments_as_text", [True, False])
def test_the_shipped_template_renders_what_training_rendered(tokenizer: Any, arguments_as_text: bool) -> None:
    author = Author(Random(7), "held-out")
    for _ in range(40):
        dialogue = author.dialogue(3, mix=Mix(several=0.3))
        rendered = tokenizer.apply_chat_template(
            messages_of(dialogue, arguments_as_text=arguments_as_text),
            add_generation_prompt=False,
            tools=[tool.schema() for tool in dialogue.tools],
        )
        assert rendered == "".join(part.text for part in segments(dialogue))


def test_what_is_null_is_not_there(tokenizer: Any) -> None:
    # vLLM hands every field that a request leaves out to the template as a null.
    def rendered(nulls: dict[str, Any]) -> str:
        tool = {"type": "function", "function": {"name": "list_events", **nulls}}
        said = {"role": "assistant", "content": "Hello!", **({"tool_calls": None} if nulls else {})}
        messages = [{"role": "user", "content": "Hello!"}, said]
        return str(tokenizer.apply_chat_template(messages, add_generation_prompt=True, tools=[tool]))

    assert rendered({"description": None, "parameters": None}) == rendered({})


def test_both_models_ship_the_same_template() -> None:
    templates = {
        (path / "chat_template.jinja").read_text("utf-8") for path in (MODEL_DIRECTORY, DRAFT_DIRECTORY)
    }
    assert len(templates) == 1


def test_the_tokenizer_loses_nothing_and_keeps_the_markup_in_decoded_text(tokenizer: Any) -> None:
    for text in (
        "Zoë's naïve café — 12€ 日本語 🎉\ttab",
        "Q3_report-final.docx 17.5 * (4 + 3)",
        "".join(MARKUP_TOKENS),
    ):
        ids = tokenizer.encode(text, add_special_tokens=False).input_ids
        assert tokenizer.decode(ids.data[0].tolist(), skip_special_tokens=True) == text


def test_a_word_has_the_same_tokens_in_prose_and_in_json(tokenizer: Any) -> None:
    def ids(text: str) -> list[int]:
        return list(tokenizer.encode(text, add_special_tokens=False).input_ids.data[0])

    word = ids("zuppiroz")
    for text in ('{"query": "zuppiroz"}', "about zuppiroz?", "'zuppiroz'", "zuppiroz.txt"):
        found = ids(text)
        assert any(found[start : start + len(word)] == word for start in range(len(found)))
