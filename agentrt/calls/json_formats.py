"""Formats whose arguments are a JSON object: with the name in it, or behind the name."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Final

from .arguments import json_call, json_text
from .events import ToolCall
from .format import CallShape, ToolCallFormat
from .json_scanner import TOOL_NAME, JsonCallScanner, NamedJsonScanner

_in_array: Final = functools.partial(JsonCallScanner, before="[")


def _head(before: str) -> Callable[[str], str]:
    """Return what writes the text of a call before its arguments, which begins with ``before``."""
    return lambda name: f'{before}{{"name": {json_text(name)}, "arguments": '


# Hermes, Qwen 2.5 and 3: anywhere in the text.
HERMES: Final = ToolCallFormat(
    name="hermes",
    scanner=JsonCallScanner,
    opening_tag="<tool_call>",
    closing="</tool_call>",
    template_markers=("<tool_call>",),
    # On a line of its own, as every chat template of this format writes a call: then the next prompt repeats
    # exactly the tokens that the model wrote, and they are found in the prefix cache.
    shape=CallShape(_head("\n"), "}\n</tool_call>"),
)

# Mistral 7B v0.3, Nemo, Small up to 3.1: an array behind a tag.
MISTRAL: Final = ToolCallFormat(
    name="mistral",
    scanner=_in_array,
    opening_tag="[TOOL_CALLS]",
    separator=",",
    closing="]",
    template_markers=("[TOOL_CALLS]",),
    shape=CallShape(_head("["), "}]"),
)

# xLAM: an array as the whole message. It has no shape: a bracket may also begin ordinary text.
XLAM: Final = ToolCallFormat(
    name="xlam",
    scanner=JsonCallScanner,
    message_opening="[",
    separator=",",
    closing="]",
    model_names=("xlam",),  # its chat template is that of its base model
    write=lambda call: f"[{json_call(call)}]",
)

# Llama 3.1, 3.2, 3.3: the whole message, or behind a tag. It has no shape: most calls begin without the tag,
# and a brace may also begin ordinary text.
LLAMA3_JSON: Final = ToolCallFormat(
    name="llama3_json",
    scanner=JsonCallScanner,
    opening_tag="<|python_tag|>",
    message_opening="",
    separator=";",
    template_markers=('{"name": function name, "parameters"',),
    write=lambda call: json_text({"name": call.name, "parameters": dict(call.arguments)}),
)

PHI4_MINI: Final = ToolCallFormat(
    name="phi4_mini",
    scanner=_in_array,
    opening_tag="<|tool_call|>",
    separator=",",
    closing="]<|/tool_call|>",
    inner_markup=("<|/tool_call|>",),
    template_markers=("<|tool_call|>",),
    write=lambda call: f"<|tool_call|>[{json_call(call)}]<|/tool_call|>",
)

# As phi4_mini, without a tag behind the array.
GRANITE: Final = ToolCallFormat(
    name="granite",
    scanner=_in_array,
    opening_tag="<|tool_call|>",
    separator=",",
    closing="]",
    model_names=("granite",),
    write=lambda call: f"<|tool_call|>[{json_call(call)}]",
)

FUNCTOOLS: Final = ToolCallFormat(
    name="functools",
    scanner=JsonCallScanner,
    opening_tag="functools[",
    separator=",",
    closing="]",
    model_names=("phi-4", "phi-3.5"),
    write=lambda call: f"functools[{json_call(call)}]",
)

# The tag of Qwen's tool list, which its coders write.
TOOLS_TAG: Final = ToolCallFormat(
    name="tools_tag",
    scanner=_in_array,
    opening_tag="<tools>",
    closing="</tools>",
    write=lambda call: f"<tools>\n{json_call(call)}\n</tools>",
)

# What models write without markup: a whole message that is one call, an array of calls, or one call per line.
# The prompt of runtime/model/tool_prompt.py teaches it to models whose chat template takes no tools. A JSON
# answer with further keys is data, not a call.
JSON_MESSAGE: Final = ToolCallFormat(
    name="json_message",
    scanner=functools.partial(JsonCallScanner, before="[,;", other_keys=frozenset({"id", "type"})),
    message_opening="",
    separator="",
    closing="]",
    write=json_call,
)

# Llama 3.1's custom tools: ``<function=name>{"key": "value"}</function>`` anywhere in the text.
FUNCTION_TAG: Final = ToolCallFormat(
    name="function_tag",
    scanner=functools.partial(NamedJsonScanner, head=re.compile(rf"{TOOL_NAME}>\s*"), tail="</function>"),
    opening_tag="<function=",
    write=lambda call: f"<function={call.name}>{json_text(dict(call.arguments))}</function>",
)

# Mistral Small 3.2, Magistral, Devstral: ``[TOOL_CALLS]name[ARGS]{…}``.
MISTRAL_ARGS: Final = ToolCallFormat(
    name="mistral_args",
    scanner=functools.partial(
        NamedJsonScanner, head=re.compile(rf"\s*{TOOL_NAME}(?:\[CALL_ID\]\w+)?\s*\[ARGS\]\s*")
    ),
    opening_tag="[TOOL_CALLS]",
    inner_markup=("[ARGS]", "[CALL_ID]"),
    template_markers=("[ARGS]",),
    shape=CallShape(lambda name: f"{name}[ARGS]", ""),
)


def _in_section(
    name: str,
    tags: Sequence[str],
    *,
    head: str,
    before: str,
    after: str = "",
    template_markers: tuple[str, ...],
) -> ToolCallFormat:
    """Return the format of calls between tags of their own, inside a section of calls.

    ``tags`` open a section, open a call, stand beside its name, end the call and end the section. ``head``
    matches what precedes the arguments, and ``before``, in which {} is the tool's name, is how that is
    written; ``after`` is written behind them.
    """
    section, call, _, call_end, section_end = tags

    def write(made: ToolCall) -> str:
        arguments = json_text(dict(made.arguments))
        return f"{section}{call}{before.format(made.name)}{arguments}{after}{call_end}{section_end}"

    return ToolCallFormat(
        name=name,
        scanner=functools.partial(NamedJsonScanner, head=re.compile(head), tail=call_end),
        opening_tag=section + call,
        separator=call,
        closing=section_end,
        inner_markup=tuple(tags[:-1]),
        template_markers=template_markers,
        write=write,
    )


_KIMI: Final = (
    "<|tool_calls_section_begin|>",
    "<|tool_call_begin|>",
    "<|tool_call_argument_begin|>",
    "<|tool_call_end|>",
    "<|tool_calls_section_end|>",
)
_DEEPSEEK: Final = (
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁call▁begin｜>",
    "<｜tool▁sep｜>",
    "<｜tool▁call▁end｜>",
    "<｜tool▁calls▁end｜>",
)

# The number counts the calls of the conversation; it is written as that of a first call.
KIMI_K2: Final = _in_section(
    "kimi_k2",
    _KIMI,
    head=rf"\s*(?:functions\.)?{TOOL_NAME}(?::\d+)?\s*{re.escape(_KIMI[2])}\s*",
    before=f"functions.{{}}:0{_KIMI[2]}",
    template_markers=_KIMI[:1],
)

# V3 and R1: the arguments stand in a code fence.
DEEPSEEK_V3: Final = _in_section(
    "deepseek_v3",
    _DEEPSEEK,
    head=rf"\s*function{_DEEPSEEK[2]}\s*{TOOL_NAME}\s*```(?:json)?\s*",
    before=f"function{_DEEPSEEK[2]}{{}}\n```json\n",
    after="\n```",
    template_markers=("function<｜tool▁sep｜>", "'<｜tool▁sep｜>' + tool['function']['name']"),
)

DEEPSEEK_V31: Final = _in_section(
    "deepseek_v31",
    _DEEPSEEK,
    head=rf"\s*{TOOL_NAME}{_DEEPSEEK[2]}\s*",
    before=f"{{}}{_DEEPSEEK[2]}",
    template_markers=_DEEPSEEK[:1],
)
