"""Tools as text, for chat templates that take none."""

from __future__ import annotations

import json
from typing import Any

from agentrt.calls import ToolCall, ToolCallFormat, parse_tool_calls
from agentrt.runtime.model.tool_prompt import with_system_in_user_message, with_tool_prompt

TOOL: dict[str, Any] = {
    "type": "function",
    "function": {"name": "look", "description": "Look it up.", "parameters": {"type": "object"}},
}
USER = {"role": "user", "content": "hi"}


def call(name: str, id: str) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": {"q": 1}}}


def test_tools_stand_in_the_system_message() -> None:
    system, user = with_tool_prompt([USER], [TOOL])
    assert system["role"] == "system"
    assert json.dumps(TOOL["function"]) in system["content"]
    assert user == USER
    (merged, _) = with_tool_prompt([{"role": "system", "content": "Be brief."}, USER], [TOOL])
    assert merged["content"] == f"Be brief.\n\n{system['content']}"


def test_without_tools_nothing_is_added() -> None:
    assert with_tool_prompt([USER], None) == [USER]


def test_calls_are_written_as_the_prompt_asks_for() -> None:
    answer = {"role": "assistant", "content": "", "tool_calls": [call("look", "a"), call("look", "b")]}
    (_, _, written) = with_tool_prompt([USER, answer], [TOOL])
    text, calls = parse_tool_calls(written["content"], ToolCallFormat.JSON_MESSAGE)
    assert (text.strip(), calls) == ("", (ToolCall("look", {"q": 1}), ToolCall("look", {"q": 1})))


def test_outputs_are_user_messages_named_after_their_call() -> None:
    answer = {"role": "assistant", "content": "Wait.", "tool_calls": [call("look", "a"), call("find", "b")]}
    outputs = [
        {"role": "tool", "tool_call_id": "b", "content": "B"},
        {"role": "tool", "tool_call_id": "a", "content": "A"},
    ]
    plain = with_tool_prompt([USER, answer, *outputs, USER], None)
    assert [message["role"] for message in plain] == ["user", "assistant", "user", "user"]
    assert plain[1]["content"].startswith("Wait.\n{")
    assert plain[2]["content"] == "Result of find:\nB\n\nResult of look:\nA"


def test_a_system_message_can_move_into_the_first_user_message() -> None:
    system = {"role": "system", "content": "S"}
    assert with_system_in_user_message([system, USER]) == [{"role": "user", "content": "S\n\nhi"}]
    assert with_system_in_user_message([system]) == [{"role": "user", "content": "S"}]
