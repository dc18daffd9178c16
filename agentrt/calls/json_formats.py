"""Formats whose calls are JSON objects: ``{"name": …, "arguments": {…}}`` with markup around them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Final

from .arguments import json_call, json_text
from .format import CallShape, ToolCallFormat
from .json_scanner import JsonCallScanner

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
