"""Writes calls in every built-in format, as a model of that format would."""

from __future__ import annotations

import json
from collections.abc import Sequence

from agentrt.calls import ToolCall, ToolCallFormat

_DEEPSEEK = ("<｜tool▁calls▁begin｜>", "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>")  # noqa: RUF001


def write_call(call: ToolCall, format: ToolCallFormat) -> str:
    """Write one call without the markup around calls."""
    arguments = json.dumps(call.arguments, ensure_ascii=False)
    match format.name:
        case "pythonic" | "lfm2":
            return f"{call.name}({', '.join(f'{key}={value!r}' for key, value in call.arguments.items())})"
        case "llama3_json":
            return json.dumps({"name": call.name, "parameters": call.arguments}, ensure_ascii=False)
        case "qwen3_coder" | "qwen3_coder_bare":
            tags = "".join(
                f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in call.arguments.items()
            )
            return f"<function={call.name}>\n{tags}</function>"
        case "glm4":
            tags = "".join(
                f"<arg_key>{key}</arg_key>\n<arg_value>{value}</arg_value>\n"
                for key, value in call.arguments.items()
            )
            return f"{call.name}\n{tags}"
        case "function_tag":
            return f"<function={call.name}>{arguments}</function>"
        case "mistral_args":
            return f"[TOOL_CALLS]{call.name}[ARGS]{arguments}"
        case "deepseek_v3":
            return f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>{call.name}\n```json\n{arguments}\n```{_DEEPSEEK[1]}"  # noqa: E501, RUF001
        case "deepseek_v31":
            return f"<｜tool▁call▁begin｜>{call.name}<｜tool▁sep｜>{arguments}{_DEEPSEEK[1]}"  # noqa: RUF001
        case "kimi_k2":
            return (
                f"<|tool_call_begin|>functions.{call.name}:0<|tool_call_argument_begin|>{arguments}"
                "<|tool_call_end|>"
            )
        case "function_gemma":
            arguments = _gemma(call.arguments, "<escape>")
            return f"<start_function_call>call:{call.name}{arguments}<end_function_call>"
        case "gemma4":
            quote = '<|"|>'
            return f"<|tool_call>call:{call.name}{_gemma(call.arguments, quote)}<tool_call|>"
        case _:
            return json.dumps({"name": call.name, "arguments": call.arguments}, ensure_ascii=False)


def write_message(calls: Sequence[ToolCall], format: ToolCallFormat) -> str:
    """Write a message of these calls."""
    written = [write_call(call, format) for call in calls]
    match format.name:
        case "hermes" | "qwen3_coder" | "glm4":
            return "\n".join(f"<tool_call>\n{call}\n</tool_call>" for call in written)
        case "llama3_json":
            return "; ".join(written)
        case "tools_tag":
            return "\n".join(f"<tools>\n{call}\n</tools>" for call in written)
        case "deepseek_v3" | "deepseek_v31":
            return _DEEPSEEK[0] + "\n".join(written) + _DEEPSEEK[2]
        case "kimi_k2":
            return f"<|tool_calls_section_begin|>{''.join(written)}<|tool_calls_section_end|>"
        case "mistral":
            return f"[TOOL_CALLS] [{', '.join(written)}]"
        case "phi4_mini":
            return f"<|tool_call|>[{', '.join(written)}]<|/tool_call|>"
        case "granite":
            return f"<|tool_call|>[{', '.join(written)}]"
        case "functools":
            return f"functools[{', '.join(written)}]"
        case "lfm2":
            return f"<|tool_call_start|>[{', '.join(written)}]<|tool_call_end|>"
        case "long_markup":
            return f"[CALLS]{' && '.join(written)} [END]"
        case "pythonic" | "xlam":
            return f"[{', '.join(written)}]"
        case _:
            return "\n".join(written)


def _gemma(value: object, quote: str) -> str:
    if isinstance(value, str):
        return f"{quote}{value}{quote}"
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{_gemma(item, quote)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(_gemma(item, quote) for item in value) + "]"
    return json.dumps(value)
