"""Which text format a model writes its tool calls in: read off its chat template, once, from one table."""

from __future__ import annotations

from typing import Final

from agentrt.calls import ToolCallFormat

# The first row whose marker occurs decides. xLAM goes by model name: its template is its base model's.
_TEMPLATE_MARKERS: Final = (
    ("<tool_call>", ToolCallFormat.HERMES),  # Hermes, Qwen 2.5, Qwen 3
    ('{"name": function name, "parameters"', ToolCallFormat.LLAMA3_JSON),  # Llama 3.1, 3.2, 3.3
    ("[func_name1(params_name1=params_value1", ToolCallFormat.PYTHONIC),  # Llama 3.2 pythonic, Llama 4
)


def detect_call_format(chat_template: str, model_id: str) -> ToolCallFormat | None:
    """Return the format that ``chat_template`` teaches, or None if it has no place for tools."""
    if "tools" not in chat_template:
        return None
    if "xlam" in model_id.lower():
        return ToolCallFormat.XLAM
    for marker, format in _TEMPLATE_MARKERS:
        if marker in chat_template:
            return format
    # Every other open model that takes tools was fine-tuned on one of many dialects; Hermes is the commonest.
    return ToolCallFormat.HERMES
