"""Answers of models in the dialects in which they call tools, and answers with JSON that call none."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from agentrt.calls import ToolCall


def _tool(name: str, properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": required}
    return {"type": "function", "function": {"name": name, "description": name, "parameters": parameters}}


TOOLS: Final = (
    _tool(
        "get_weather",
        {"city": {"type": "string"}, "days": {"type": "integer"}, "metric": {"type": "boolean"}},
        ["city"],
    ),
    _tool("search_mail", {"query": {"type": "string"}, "limit": {"type": "integer"}}, ["query"]),
    _tool(
        "add_event",
        {
            "title": {"type": "string"},
            "guests": {"type": "array", "items": {"type": "string"}},
            "length_h": {"type": "number"},
        },
        ["title"],
    ),
)
"""The tools that the models were offered, in OpenAI's shape."""


@dataclass(frozen=True, slots=True)
class RecordedAnswer:
    """One answer as a model writes it."""

    dialect: str
    format: str
    """The name of the tool-call format that the model's chat template shows."""
    text: str
    calls: tuple[ToolCall, ...]
    plain: str = ""
    """The text around the calls, without whitespace at its ends."""


_OSLO = ToolCall("get_weather", {"city": "Oslo"})
_ROME = ToolCall("get_weather", {"city": "Rome", "days": 3})
_MAIL = ToolCall("search_mail", {"query": 'invoice from "Ann"', "limit": 5})
_EVENT = ToolCall("add_event", {"title": "Lunch", "guests": ["Bo", "Cy"], "length_h": 1.5})

_OSLO_JSON = '{"name": "get_weather", "arguments": {"city": "Oslo"}}'
_ROME_JSON = '{"name": "get_weather", "arguments": {"city": "Rome", "days": 3}}'
_EVENT_JSON = (
    '{"name": "add_event", "arguments": {"title": "Lunch", "guests": ["Bo", "Cy"], "length_h": 1.5}}'
)

RECORDED_ANSWERS: Final = (
    RecordedAnswer("hermes", "hermes", f"<tool_call>\n{_OSLO_JSON}\n</tool_call>", (_OSLO,)),
    RecordedAnswer(
        "hermes after prose, two calls",
        "hermes",
        f"I will look it up.\n<tool_call>\n{_OSLO_JSON}\n</tool_call>\n"
        f"<tool_call>\n{_ROME_JSON}\n</tool_call>",
        (_OSLO, _ROME),
        "I will look it up.",
    ),
    RecordedAnswer("bare JSON (Qwen2.5-Coder-1.5B)", "hermes", _OSLO_JSON, (_OSLO,)),
    RecordedAnswer("doubled braces (Qwen2.5-Coder-1.5B)", "hermes", f"{{{_OSLO_JSON}}}", (_OSLO,)),
    RecordedAnswer("bare JSON, one per line", "hermes", f"{_OSLO_JSON}\n{_ROME_JSON}\n", (_OSLO, _ROME)),
    RecordedAnswer("JSON array", "hermes", f"[{_OSLO_JSON}, {_EVENT_JSON}]", (_OSLO, _EVENT)),
    RecordedAnswer(
        "JSON over several lines",
        "hermes",
        json.dumps([{"name": "get_weather", "arguments": {"city": "Oslo"}}], indent=2),
        (_OSLO,),
    ),
    RecordedAnswer("```json fence (Qwen2.5-Coder-0.5B)", "hermes", f"```json\n{_OSLO_JSON}\n```", (_OSLO,)),
    RecordedAnswer(
        "Qwen2.5-Coder-1.5B, as it answered 'What is the weather in Oslo?'",
        "hermes",
        '```json\n{\n  "name": "get_weather",\n  "arguments": {\n    "city": "Oslo",\n'
        '    "days": 1\n  }\n}\n```',
        (ToolCall("get_weather", {"city": "Oslo", "days": 1}),),
    ),
    RecordedAnswer(
        "Qwen2.5-Coder-0.5B, as it answered 'Find my mail about the invoice from Ann.'",
        "hermes",
        '```json\n{\n  "name": "search_mail",\n  "arguments": {\n'
        '    "query": "Invoice from Ann"\n  }\n}\n```',
        (ToolCall("search_mail", {"query": "Invoice from Ann"}),),
    ),
    RecordedAnswer("fence without a language", "hermes", f"```\n{_EVENT_JSON}\n```\n", (_EVENT,)),
    RecordedAnswer(
        "two fences", "hermes", f"```json\n{_OSLO_JSON}\n```\n\n```json\n{_ROME_JSON}\n```", (_OSLO, _ROME)
    ),
    RecordedAnswer("<tools> (Qwen2.5-Coder)", "hermes", f"<tools>\n{_OSLO_JSON}\n</tools>", (_OSLO,)),
    RecordedAnswer(
        "Llama 3 JSON", "llama3_json", '{"name": "get_weather", "parameters": {"city": "Oslo"}}', (_OSLO,)
    ),
    RecordedAnswer(
        "Llama 3 python tag",
        "llama3_json",
        '<|python_tag|>{"name": "get_weather", "parameters": {"city": "Rome", "days": "3"}}',
        (_ROME,),
    ),
    RecordedAnswer(
        "Llama 3.1 function tag", "llama3_json", '<function=get_weather>{"city": "Oslo"}</function>', (_OSLO,)
    ),
    RecordedAnswer(
        "Llama 4 pythonic",
        "pythonic",
        "[get_weather(city=\"Oslo\"), add_event(title='Lunch', guests=['Bo', 'Cy'], length_h=1.5)]",
        (_OSLO, _EVENT),
    ),
    RecordedAnswer("pythonic of another model", "hermes", '[get_weather(city="Rome", days=3)]', (_ROME,)),
    RecordedAnswer(
        "Mistral 7B v0.3", "mistral", f"[TOOL_CALLS] [{_OSLO_JSON}, {_ROME_JSON}]", (_OSLO, _ROME)
    ),
    RecordedAnswer(
        "Mistral Small 3.2",
        "mistral_args",
        '[TOOL_CALLS]get_weather[CALL_ID]a1b2c3d4e[ARGS]{"city": "Oslo"}'
        '[TOOL_CALLS]get_weather[ARGS]{"city": "Rome", "days": 3}',
        (_OSLO, _ROME),
    ),
    RecordedAnswer("xLAM", "xlam", f"[{_OSLO_JSON}, {_ROME_JSON}]", (_OSLO, _ROME)),
    RecordedAnswer(
        "DeepSeek V3",
        "deepseek_v3",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n"
        '```json\n{"city": "Oslo"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
        (_OSLO,),
    ),
    RecordedAnswer(
        "DeepSeek V3.1",
        "deepseek_v31",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>"
        'get_weather<｜tool▁sep｜>{"city": "Oslo"}<｜tool▁call▁end｜>'
        '<｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{"city": "Rome", "days": 3}<｜tool▁call▁end｜>'
        "<｜tool▁calls▁end｜>",
        (_OSLO, _ROME),
    ),
    RecordedAnswer("Phi-4-mini", "phi4_mini", f"<|tool_call|>[{_OSLO_JSON}]<|/tool_call|>", (_OSLO,)),
    RecordedAnswer("Phi-4 functools", "functools", f"functools[{_OSLO_JSON}, {_ROME_JSON}]", (_OSLO, _ROME)),
    RecordedAnswer("Granite 3", "granite", f"<|tool_call|>[{_EVENT_JSON}]", (_EVENT,)),
    RecordedAnswer(
        "Qwen3-Coder",
        "qwen3_coder",
        "<tool_call>\n<function=get_weather>\n<parameter=city>\nRome\n</parameter>\n"
        "<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>",
        (_ROME,),
    ),
    RecordedAnswer(
        "Qwen3-Coder without its outer tag",
        "qwen3_coder",
        '<function=add_event>\n<parameter=title>\nLunch\n</parameter>\n<parameter=guests>\n["Bo", "Cy"]\n'
        "</parameter>\n<parameter=length_h>\n1.5\n</parameter>\n</function>\n</tool_call>",
        (_EVENT,),
    ),
    RecordedAnswer(
        "GLM 4.5",
        "glm4",
        "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Rome</arg_value>\n"
        "<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n</tool_call>",
        (_ROME,),
    ),
    RecordedAnswer(
        "Kimi K2",
        "kimi_k2",
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0"
        '<|tool_call_argument_begin|>{"city": "Oslo"}<|tool_call_end|><|tool_calls_section_end|>',
        (_OSLO,),
    ),
    RecordedAnswer(
        "FunctionGemma",
        "function_gemma",
        "<start_function_call>call:get_weather{city:<escape>Rome<escape>,days:3}<end_function_call>",
        (_ROME,),
    ),
    RecordedAnswer(
        "Gemma 4", "gemma4", '<|tool_call>call:get_weather{city:<|"|>Oslo<|"|>}<tool_call|>', (_OSLO,)
    ),
    RecordedAnswer(
        "Gemma 3 in a fence", "json_message", '```tool_code\n[get_weather(city="Oslo")]\n```', (_OSLO,)
    ),
    RecordedAnswer(
        "LFM2",
        "lfm2",
        '<|tool_call_start|>[search_mail(query="invoice from \\"Ann\\"", limit=5)]<|tool_call_end|>'
        "Looking through your mail.",
        (_MAIL,),
        "Looking through your mail.",
    ),
    RecordedAnswer("a template without tools (SmolLM2)", "json_message", _EVENT_JSON, (_EVENT,)),
    RecordedAnswer(
        "numbers as texts",
        "json_message",
        '{"name": "get_weather", "arguments": {"city": "Rome", "days": "3"}}',
        (_ROME,),
    ),
    RecordedAnswer(
        "a name one letter off", "hermes", '{"name": "getweather", "arguments": {"city": "Oslo"}}', (_OSLO,)
    ),
)
"""At least one answer in every dialect that :mod:`agentrt.calls` reads, among them those of real models."""

_QUOTED = (
    _OSLO_JSON,
    f"[{_OSLO_JSON}]",
    f"```json\n{_ROME_JSON}\n```",
    '[get_weather(city="Oslo")]',
    '{"name": "get_weather", "parameters": {"city": "Oslo"}}',
)
_BEFORE = (
    "You can call the tool like this: ",
    "The request that I would send is\n\n",
    "Here is an example:\n",
    "Sure! ",
    "1. ",
    "> ",
    "The JSON is: ",
    "Yes.\n\n",
    "Do not run this: ",
    "The last answer was ",
)
_AFTER = ("", " Shall I?", "\n\nIt returns the weather of a city.", "\n", " is what the log says.")
_DATA = (
    '{"city": "Oslo", "temperature": 12}',
    '{"name": "Oslo", "country": "Norway"}',
    '{"name": "get_weather", "description": "Returns the weather"}',
    '{"name": "get_weather", "arguments": {"place": "Oslo"}}',
    '{"name": "get_weather", "arguments": {}}',
    '{"name": "get_weather", "arguments": {"city": 5}}',
    # Qwen2.5-Coder-1.5B, asked for the weather in two cities: the schema takes one.
    '```json\n{"name": "get_weather", "arguments": {"city": ["Oslo", "Rome"], "days": 3}}\n```',
    '{"name": "delete_all", "arguments": {"city": "Oslo"}}',
    '{"name": "get_weather", "arguments": {"city": "Oslo"}, "result": "12 degrees"}',
    '["get_weather", "search_mail"]',
    "[1, 2, 3]",
    "[print(city='Oslo')]",
    '```python\nget_weather("Oslo")\n```',
    "```json\n{}\n```",
    "{}",
    '{"arguments": {"city": "Oslo"}}',
)


def answers_without_calls() -> Iterator[str]:
    """Yield 1,000 answers of which none calls a tool: JSON in prose, data, and calls that do not fit."""
    quoted = (b + q + a for b, q, a in itertools.product(_BEFORE, _QUOTED, _AFTER))
    trailing = (q + "\n" + a.strip() for q, a in itertools.product(_QUOTED, ("It is sunny.", "Done!")))
    data = (b + d + a for b, d, a in itertools.product(("", "\n", *_BEFORE), _DATA, _AFTER))
    return itertools.islice(itertools.chain(trailing, quoted, data), 1000)
