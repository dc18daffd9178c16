"""From dialogues to the exact text the model reads: what ``chat_template.jinja`` renders, in Python.

Training renders with this module, everybody else with the template in the model directory; a test keeps
the two equal.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from .dialogues import Dialogue
from .results import to_json

SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
MARKUP_TOKENS = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<tools>", "</tools>")

CHAT_TEMPLATE = """\
{%- if messages[0].role == 'system' %}{%- set system = messages[0].content %}
{%- else %}{%- set system = 'You are a helpful assistant.' %}{%- endif %}
{{- '<|im_start|>system\\n' + system }}
{%- if tools %}
    {{- '\\n<tools>' }}
    {%- for tool in tools %}
        {%- set function = tool.function %}
        {{- '\\n{"description": ' + (function.description | default('') | tojson) }}
        {{- ', "name": ' + (function.name | tojson) + ', "parameters": {' }}
        {%- set parameters = function.parameters | default({}) %}
        {%- set required = parameters.required | default([]) %}
        {%- for name, schema in (parameters.properties | default({})).items() %}
            {%- if not loop.first %}{{- ', ' }}{%- endif %}
            {{- '"' + name + ('' if name in required else '?') + '": "' }}
            {%- if schema.enum %}{{- schema.enum | join('|') }}
            {%- else %}{{- schema.type | default('any') | string }}{%- endif %}
            {{- '"' }}
        {%- endfor %}
        {{- '}}' }}
    {%- endfor %}
    {{- '\\n</tools>' }}
{%- endif %}
{{- '<|im_end|>\\n' }}
{%- for message in messages %}
    {%- if message.role == 'user' %}
        {{- '<|im_start|>user\\n' + message.content + '<|im_end|>\\n' }}
    {%- elif message.role == 'assistant' %}
        {{- '<|im_start|>assistant\\n' }}
        {%- if message.content %}{{- message.content }}{%- endif %}
        {%- for call in (message.tool_calls | default([])) %}
            {%- if message.content or not loop.first %}{{- '\\n' }}{%- endif %}
            {{- '<tool_call>\\n{"name": ' + (call.function.name | tojson) + ', "arguments": ' }}
            {%- if call.function.arguments is string %}{{- call.function.arguments }}
            {%- else %}{{- call.function.arguments | tojson }}{%- endif %}
            {{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == 'tool' %}
        {{- '<|im_start|>user\\n<tool_response>\\n' + message.content + '\\n</tool_response><|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}
"""


class Segment(NamedTuple):
    """A run of text; ``learned`` marks what the assistant writes (the only part with a loss)."""

    text: str
    learned: bool


def tool_line(schema: Mapping[str, Any]) -> str:
    """One tool as the system prompt shows it: what it does, then its name, then its parameters."""
    function = schema["function"]
    parameters = function.get("parameters", {})
    required = parameters.get("required", [])
    shown = {
        name if name in required else f"{name}?": "|".join(map(str, spec["enum"]))
        if "enum" in spec
        else str(spec.get("type", "any"))
        for name, spec in parameters.get("properties", {}).items()
    }
    return json.dumps(
        {"description": function.get("description", ""), "name": function["name"], "parameters": shown},
        ensure_ascii=False,
    )


def system_block(system: str, tools: Iterable[Mapping[str, Any]]) -> str:
    """The system turn with its tools."""
    lines = "".join("\n" + tool_line(tool) for tool in tools)
    return f"<|im_start|>system\n{system}" + (f"\n<tools>{lines}\n</tools>" if lines else "") + "<|im_end|>\n"


def call_text(name: str, arguments: Mapping[str, Any]) -> str:
    """A tool call as the assistant writes it (Hermes form)."""
    return f'<tool_call>\n{{"name": {to_json(name)}, "arguments": {to_json(dict(arguments))}}}\n</tool_call>'


def segments(dialogue: Dialogue) -> list[Segment]:
    """The whole dialogue as text, assistant turns marked as learned."""
    result = [Segment(system_block(dialogue.system, [tool.schema() for tool in dialogue.tools]), False)]
    for turn in dialogue.turns:
        result.append(Segment(f"<|im_start|>user\n{turn.request}<|im_end|>\n<|im_start|>assistant\n", False))
        for step in turn.steps:
            result.append(Segment(call_text(step.name, step.arguments) + "<|im_end|>", True))
            if dialogue.calls_only:
                break
            result.append(
                Segment(
                    f"\n<|im_start|>user\n<tool_response>\n{step.result}\n</tool_response><|im_end|>\n<|im_start|>assistant\n",
                    False,
                )
            )
        if not (turn.steps and dialogue.calls_only):
            result.append(Segment(turn.answer + "<|im_end|>", True))
        result.append(Segment("\n", False))
    return result
