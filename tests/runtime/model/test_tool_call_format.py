from __future__ import annotations

import pytest

from agentrt.calls import ToolCallFormat
from agentrt.runtime.model.tokenizer import Tokenizer
from agentrt.runtime.model.tool_call_format import detect_call_format

LLAMA_JSON = (
    "{%- if tools %}Respond in the format "
    '{"name": function name, "parameters": dictionary of argument name and its value}.{% endif %}'
)
LLAMA_PYTHONIC = (
    "{%- if tools %}[func_name1(params_name1=params_value1, params_name2=params_value2...)]{% endif %}"
)


@pytest.mark.parametrize(
    ("template", "model_id", "expected"),
    [
        ("{{ messages }}", "base", None),
        ("{% if tools %}<tool_call>{% endif %}", "Qwen2.5-1.5B-Instruct", ToolCallFormat.HERMES),
        (LLAMA_JSON, "Llama-3.2-3B-Instruct", ToolCallFormat.LLAMA3_JSON),
        (LLAMA_PYTHONIC, "Llama-4", ToolCallFormat.PYTHONIC),
        ("{% if tools %}<tool_call>{% endif %}", "xLAM-2-1b-fc-r", ToolCallFormat.XLAM),
        ("{% if tools %}…{% endif %}", "other", ToolCallFormat.HERMES),
    ],
)
def test_table(template: str, model_id: str, expected: ToolCallFormat | None) -> None:
    assert detect_call_format(template, model_id) is expected


def test_nano(tokenizer: Tokenizer) -> None:
    assert detect_call_format(tokenizer.chat_template, "nano") is ToolCallFormat.HERMES
