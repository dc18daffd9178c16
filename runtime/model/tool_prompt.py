"""Tools in the prompts of models whose chat template takes none.

The tools stand in the system message, with the JSON form in which to call them
(:data:`agentrt.calls.ToolCallFormat.JSON_MESSAGE`); calls become the text of the assistant, and tool outputs
user messages.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

_INTRODUCTION: Final = (
    "You can call tools. Each line describes one: its name, what it does, and the schema of its arguments."
)
_INSTRUCTION: Final = """\
To call a tool, answer with nothing but JSON of this form:
{"name": "the tool's name", "arguments": {"an argument": "its value"}}
To call several tools, answer with one such line each. The next message has the results.
If no tool helps, answer in plain text."""


def with_tool_prompt(
    messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] | None
) -> list[dict[str, Any]]:
    """Return ``messages`` in which tools, calls and outputs are text, for a template that knows none of them.

    ``messages`` and ``tools`` are in normal form: see :mod:`agentrt.runtime.request.validation`.
    """
    plain: list[dict[str, Any]] = []
    names: dict[str, str] = {}
    role = ""
    for message in messages:
        after_output, role = role == "tool", message["role"]
        if role == "tool":
            name = names.get(message.get("tool_call_id", ""), message.get("name", "the tool"))
            output = f"Result of {name}:\n{message['content']}"
            if after_output:  # one message, since many templates alternate roles
                plain[-1]["content"] += f"\n\n{output}"
            else:
                plain.append({"role": "user", "content": output})
            continue
        calls = message.get("tool_calls") or ()
        names.update((call["id"], call["function"]["name"]) for call in calls if call.get("id"))
        texts = [message["content"], *map(_call_text, calls)]
        plain.append({"role": role, "content": "\n".join(text for text in texts if text)})
    if tools:
        prompt = "\n\n".join((_INTRODUCTION, "\n".join(map(_tool_text, tools)), _INSTRUCTION))
        if plain[0]["role"] == "system":
            plain[0]["content"] = f"{plain[0]['content']}\n\n{prompt}"
        else:
            plain.insert(0, {"role": "system", "content": prompt})
    return plain


def with_system_in_user_message(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return ``messages`` with a system message put in front of the first user message."""
    system, *others = (dict(message) for message in messages)
    for message in others:
        if message["role"] == "user":
            message["content"] = f"{system['content']}\n\n{message['content']}"
            return others
    return [{"role": "user", "content": system["content"]}, *others]


def _call_text(call: Mapping[str, Any]) -> str:
    function = call["function"]
    written = {"name": function["name"], "arguments": function["arguments"]}
    return json.dumps(written, ensure_ascii=False)


def _tool_text(tool: Mapping[str, Any]) -> str:
    return json.dumps(tool["function"], ensure_ascii=False)
